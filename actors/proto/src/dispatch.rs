//! Who gets the next delivery.
