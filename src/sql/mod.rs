//! What the SQL parts share: pools, error classes, migrations.
