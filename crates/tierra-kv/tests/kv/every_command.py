# Drives every command of a server once through redis-py's own methods, so that its parsers read each reply,
# and checks what comes back. The path of the server's socket and the protocol are the arguments.
import sys
import time

import redis

PATH, PROTOCOL = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(unix_socket_path=PATH, protocol=PROTOCOL, **options)


r = connect()
driven = set()


class Watching:
    """Notes which commands are sent."""

    def __init__(self, connection_class):
        self.send = connection_class.send_packed_command
        watching = self

        def send_packed_command(connection, command, check_health=True):
            for piece in command if isinstance(command, (list, tuple)) else [command]:
                watching.note(piece)
            return watching.send(connection, command, check_health)

        connection_class.send_packed_command = send_packed_command

    def note(self, packed):
        packed = bytes(packed)
        while packed.startswith(b"*"):
            head, packed = packed.split(b"\r\n", 1)
            for at in range(int(head[1:])):
                length, packed = packed.split(b"\r\n", 1)
                argument, packed = packed[: int(length[1:])], packed[int(length[1:]) + 2 :]
                if at == 0:
                    driven.add(argument.decode().lower())


Watching(redis.connection.AbstractConnection)


def check(found, expected):
    if isinstance(expected, type):
        assert isinstance(found, expected), (found, expected)
    elif expected is not Ellipsis:
        assert found == expected, (found, expected)


now = int(time.time())
for found, expected in [
    # Strings.
    (r.set("k", "v"), True), (r.get("k"), b"v"), (r.append("k", "w"), 2), (r.strlen("k"), 2),
    (r.getrange("k", 0, 0), b"v"), (r.substr("k", 1), b"w"), (r.setrange("k", 0, "x"), 2),
    (r.getset("k", "5"), b"xw"), (r.incr("k"), 6), (r.incrby("k", 4), 10), (r.decr("k"), 9),
    (r.execute_command("DECRBY", "k", 2), 7), (r.execute_command("INCR", "k"), 8),
    (r.execute_command("DECR", "k"), 7), (r.incrbyfloat("k", 0.5), 7.5), (r.getex("k", ex=100), b"7.5"),
    (r.mset({"a": 1, "b": 2}), True), (r.mget("a", "b", "none"), [b"1", b"2", None]),
    (r.msetnx({"a": 1, "c": 2}), False), (r.setex("e", 100, "v"), True), (r.psetex("p", 100000, "v"), True),
    (r.setnx("k", "v"), False), (r.getdel("e"), b"v"),
    # Hashes.
    (r.hset("h", mapping={"f": 1, "g": "x"}), 2), (r.hget("h", "f"), b"1"),
    (r.hgetall("h"), {b"f": b"1", b"g": b"x"}), (r.hmget("h", "f", "n"), [b"1", None]),
    (r.hincrby("h", "f", 2), 3), (r.hincrbyfloat("h", "f", 0.5), 3.5), (r.hkeys("h"), [b"f", b"g"]),
    (r.hvals("h"), [b"3.5", b"x"]), (r.hlen("h"), 2), (r.hexists("h", "f"), True), (r.hstrlen("h", "g"), 1),
    (r.hsetnx("h", "f", 1), False), (r.hrandfield("h", 2, True), list), (r.hscan("h")[0], 0),
    (r.execute_command("HMSET", "h", "i", "1"), ...), (r.hdel("h", "i"), 1),
    # Sorted sets.
    (r.zadd("z", {"one": 1, "two": 2, "three": 3}), 3), (r.zcard("z"), 3), (r.zscore("z", "two"), 2.0),
    (r.zincrby("z", 1, "one"), 2.0), (r.zcount("z", 2, 3), 3), (r.zlexcount("z", "-", "+"), 3),
    (r.zmscore("z", ["one", "none"]), [2.0, None]), (r.zrange("z", 0, -1), [b"one", b"two", b"three"]),
    (r.zrevrange("z", 0, 0), [b"three"]), (r.zrangebyscore("z", 3, 9), [b"three"]),
    (r.zrevrangebyscore("z", 9, 3), [b"three"]), (r.zrangebylex("z", "-", "[one"), [b"one"]),
    (r.zrevrangebylex("z", "[two", "[two"), ...), (r.zrank("z", "one"), 0), (r.zrevrank("z", "one"), 2),
    (r.zrandmember("z"), bytes), (r.zscan("z")[0], 0), (r.zrem("z", "two"), 1), (len(r.zpopmax("z")), ...),
    (len(r.zpopmin("z")), ...), (r.zadd("z", {"a": 0, "b": 0, "c": 1, "d": 2}), 4),
    (r.zremrangebylex("z", "[a", "[a"), 1), (r.zremrangebyscore("z", 1, 1), 1), (r.zremrangebyrank("z", 0, 0), 1),
    (r.zadd("y", {"b": 1, "d": 3}), 2), (r.zadd("z", {"b": 2, "c": 5}), ...),
    (r.zunion(["z", "y"], withscores=True), list), (r.zinter(["z", "y"]), list), (r.zdiff(["z", "y"]), list),
    (r.zunionstore("u", ["z", "y"], aggregate="MAX"), int), (r.zinterstore("u", ["z", "y"]), int),
    (r.zdiffstore("u", ["z", "y"]), int), (r.zintercard(2, ["z", "y"]), int), (r.zrangestore("u", "y", 0, -1), 2),
    (len(r.zmpop(2, ["none", "u"], min=True)), 2),
    (r.zadd("u", {"a": 1, "b": 2, "c": 3}), ...), (len(r.bzpopmin(["none", "u"], 1)), 3), (len(r.bzpopmax("u", 1)), 3),
    (len(r.bzmpop(1, 2, ["none", "u"], min=True)), 2), (r.bzpopmin("none", 0.001), None),
    (r.sort("y", alpha=True, desc=True), [b"d", b"b"]), (r.sort("y", by="nosort", get="#"), [b"b", b"d"]),
    (r.execute_command("SORT_RO", "y", "ALPHA", "LIMIT", 0, 1), [b"b"]),
    # Bits.
    (r.setbit("bits", 7, 1), 0), (r.getbit("bits", 7), 1), (r.bitcount("bits"), 1), (r.bitpos("bits", 1), 7),
    (r.bitop("NOT", "toggled", "bits"), 1), (r.bitfield("bits").get("u8", 0).execute(), [1]), (r.bitfield_ro("bits", "u8", 0), [1]),
    (r.lcs("k", "k"), b"7.5"), (r.lcs("k", "k", len=True), 3), (r.lcs("k", "k", idx=True), ...),
    # Keys.
    (r.restore("restored", 0, r.dump("k")), b"OK"), (r.get("restored"), b"7.5"), (r.delete("restored"), 1),
    (r.copy("k", "k2"), True), (r.dbsize(), int), (r.exists("k", "k2"), 2), (r.expire("k", 100), True),
    (r.expireat("k", now + 100), True), (r.expiretime("k"), now + 100), (r.pexpire("k", 100000), True),
    (r.pexpireat("k", (now + 100) * 1000), True), (r.pexpiretime("k"), (now + 100) * 1000),
    (0 < r.ttl("k") <= 100, True), (0 < r.pttl("k") <= 100000, True), (r.persist("k"), True),
    (sorted(r.keys("k*")), [b"k", b"k2"]), (r.move("k2", 1), True), (r.object("ENCODING", "k"), ...),
    (r.randomkey(), bytes), (r.rename("k", "l"), True), (r.renamenx("l", "a"), False), (r.scan()[0], int),
    (r.swapdb(0, 1), True), (r.swapdb(0, 1), True), (r.touch("l"), 1), (r.type("l"), b"string"), (r.unlink("l"), 1),
    (r.delete("a", "none"), 1),
    # Connection.
    (r.ping(), True), (r.echo("x"), b"x"), (r.client_id(), int), (r.client_setname("me"), True), (r.client_getname(), ...),
    (r.client_list(), list), (r.command_count(), int), (r.select(0), True), (r.wait(0, 0), 0),
    (r.client_pause(0, all=False), True), (r.client_unpause(), ...), (r.client_unblock(1), False),
    # Server.
    (r.config_get("maxmemory"), {"maxmemory": "0"}), (r.info(), dict), (r.memory_usage("h"), int),
    (r.slowlog_len(), int), (r.slowlog_get(), list), (r.time(), tuple), (r.role(), ...),
    (r.execute_command("LATENCY LATEST"), list), (r.execute_command("DEBUG", "SLEEP", "0"), ...),
    (r.flushdb(), True), (r.flushall(), True),
]:
    check(found, expected)

# Transactions, by a pipeline that watches.
with r.pipeline() as pipeline:
    pipeline.watch("t")
    pipeline.unwatch()
    pipeline.watch("t")
    pipeline.multi()
    pipeline.set("t", 1).incr("t")
    check(pipeline.execute(), [True, 2])
single = connect(single_connection_client=True)
single.execute_command("MULTI")
single.execute_command("DISCARD")
single.execute_command("HELLO", PROTOCOL)
try:
    single.auth("secret")
except (redis.ResponseError, redis.AuthenticationError) as error:
    check("without any password configured" in str(error), True)
single.execute_command("RESET")
with connect().monitor() as monitor:
    r.echo("told")
    check("told" in monitor.next_command()["command"], True)
connect(single_connection_client=True).execute_command("QUIT")

known = {name.split("|")[0].lower() for name in r.command()}
known -= {"shutdown"}
missing = known - driven
assert not missing, f"not driven: {sorted(missing)}"
print(len(known), "commands")
