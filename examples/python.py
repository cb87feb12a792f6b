"""Tierra from Python: tables, prepared lookups, a stream, and what a query reads from near and far memory.

python examples/python.py
"""

import tierra

db = tierra.connect()  # temporary; give a path to keep it
db.sql("CREATE TABLE readings (id BIGINT PRIMARY KEY, station VARCHAR NOT NULL, celsius DECIMAL(5, 2))")
db.sql("""
    INSERT INTO readings
    SELECT n, CASE WHEN n % 3 = 0 THEN 'Oslo' ELSE 'Lima' END, CAST(n % 400 AS DECIMAL(5, 2)) / 10
    FROM generate_series(1, 300000) s(n)
""")

# Planned once; each call looks one row up.
reading = db.prepare("SELECT station, celsius FROM readings WHERE id = ?")
print(reading(4711).fetchone())

# A list is one parameter, of any length.
some = db.sql("SELECT count(*) FROM readings WHERE id = ANY(?)", [range(299_000, 310_000)])
print(some.fetchone())

# Rows are computed as they are asked for.
warm = db.sql("SELECT station, count(*) AS n, max(celsius) AS most FROM readings GROUP BY station ORDER BY station")
warm.show()
for station, count, most in warm:
    print(station, count, most)
print(warm.work["blocks_read"], "blocks read")

# Errors name what is wrong, and leave the table as it was.
try:
    db.sql("INSERT INTO readings VALUES (1, 'Rome', 20)")
except tierra.IntegrityError as error:
    print(error)
db.close()
