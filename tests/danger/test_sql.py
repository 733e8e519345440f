"""Which statements destroy data."""

from __future__ import annotations

from feishuperm.danger import code as sql
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    "statement",
    [
        "DROP TABLE users",
        "drop  database if exists x",
        "select 1; truncate users",
        "delete from users",
        "delete from users where 1=1",
        "delete from users where true",
        "delete from users where id is not null",
        "delete from users where id > 0",
        "update users set admin = true",
        "/* where */ delete from users -- where id = 1",
        "delete from users /* never ends where id = 1",
        "alter table users drop column email",
        "grant all on users to public",
        "copy users to program 'sh'",
        "db.users.deleteMany({})",
        "FLUSHALL",
        r"select 'it\'s'; drop table users; --'",
        "execute immediate 'drop table users'",
    ],
)
def test_statement_destroys(statement: str) -> None:
    assert sql.destroys(statement)


@every_row(
    "statement",
    [
        "select * from users",
        "delete from users where id = 1",
        "delete from users limit 10",
        "update users set admin = true where id = 1",
        "update statistics",
        "select 'drop table users'",
        'select "drop table users" from x',
        "select 1 -- drop table users",
        "alter table users alter column x drop default",
        "alter table users alter x drop not null",
        "select truncate(1.5, 1)",
        "db.users.deleteMany({age: 3})",
        "create table users (dropped int)",
        "",
    ],
)
def test_statement_does_not(statement: str) -> None:
    assert sql.destroys(statement) == ""


def test_statement_is_told_alone_and_in_one_line() -> None:
    text = "select 1;\n drop\n  table x ; select 2"
    assert sql.destroys(text) == "drop table x"
    assert len(sql.destroys("drop table " + "x" * 1000)) == 400
    assert sql.destroys(" " * sql.MAX_SQL + "drop table x") == ""


def test_client_is_told_to_run_and_to_read() -> None:
    stage = Stage()
    text = "\\! rm -rf ~\n.shell ls\n\\i drop.sql\nsource wipe.sql\n-- \\! no"
    sql.judge_sql(stage.state, "psql", text + "\n.read reset.sql")
    assert stage.calls == ["rm -rf ~", "ls"]
    assert stage.notes == ["danger.data psql drop.sql, psql wipe.sql, psql reset.sql"]
    stage = Stage()
    sql.judge_sql(stage.state, "psql", "\\! ls\n" * 9)
    assert stage.calls == ["ls"] * 5
