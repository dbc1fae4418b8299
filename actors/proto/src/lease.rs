//! The rules of a delivery on the server: ready, leased, lapsed, EXPIRED, confirmed.
