CREATE TABLE everything (id BIGINT PRIMARY KEY, b BOOLEAN, i INTEGER, f DOUBLE PRECISION, price NUMERIC(9, 2), d DATE, ts TIMESTAMP, name TEXT NOT NULL);
CREATE TABLE "Mixed Case" ("Second" TEXT, note TEXT, first INTEGER, PRIMARY KEY (first, "Second"));
CREATE TABLE keyless (note TEXT);
