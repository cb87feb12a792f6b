"""A program that a type checker reads: `mypy --strict`."""

import tierra


def first(db: tierra.Connection) -> int | None:
    """Everything that the stubs say, used once."""
    with db.cursor() as cursor:
        cursor.execute("SELECT ?", (1,))
        row = cursor.fetchone()
    count: int = db.load("t", "t.csv", progress=lambda rows, done, all_of_it: print(rows))
    prepared: tierra.Prepared = db.prepare("SELECT n FROM t WHERE n = ?")
    names: list[str] = prepared(1).columns
    read: dict[str, int] = db.sql("SELECT 1").work
    print(count, names, read, tierra.STRING == "VARCHAR")
    return None if row is None else int(row[0])
