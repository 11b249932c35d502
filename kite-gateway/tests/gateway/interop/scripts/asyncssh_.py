"""What asyncssh can do, one feature to a call."""

import asyncio
import json
import os
import sys

import asyncssh

LAB = json.loads(os.environ["KITE_INTEROP_LAB"])
DATA = bytes(range(251)) * 4000


def connect(**how):
    return asyncssh.connect(
        LAB["host"],
        LAB["port"],
        username=LAB["user"],
        known_hosts=LAB["known_hosts"],
        config=None,
        **{"client_keys": [LAB["key"]], "agent_path": None, **how},
    )


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


async def logged_in(**how):
    async with connect(**how) as connection:
        expect("exit code", (await connection.run("true")).exit_status, 0)


async def key():
    await logged_in()


async def password():
    await logged_in(
        client_keys=None, password=LAB["password"], preferred_auth="password"
    )


async def interactive():
    await logged_in(
        client_keys=None,
        password=LAB["password"],
        preferred_auth="keyboard-interactive",
    )


async def exec_():
    async with connect() as connection:
        for code in (0, 7):
            answer = await connection.run(f"exit {code}")
            expect("exit code", answer.exit_status, code)
        answer = await connection.run("exec >&- 2>&-; sleep 0.2; exit 7")
        expect("exit code", answer.exit_status, 7)


async def signal():
    async with connect() as connection:
        answer = await connection.run("kill -TERM $$")
        expect("exit signal", answer.exit_signal[0], "TERM")
        print(answer.exit_signal[0])


async def stderr():
    async with connect() as connection:
        answer = await connection.run("echo out; echo err >&2; exit 7")
        found = (answer.exit_status, answer.stdout, answer.stderr)
        expect("output", found, (7, "out\n", "err\n"))


async def shell():
    async with connect() as connection:
        terminal = {"term_type": "xterm", "term_size": (91, 33)}
        process = await connection.create_process(**terminal)
        process.stdin.write(
            "test \"$SSH_TTY\" = \"$(tty)\" && echo same''tty $(stty size); exit 3\n"
        )
        answer = await process.wait()
        if "sametty 33 91" not in answer.stdout:
            sys.exit(f"the terminal said {answer.stdout!r}")
        expect("exit code", answer.exit_status, 3)


async def reversed_by(reader, writer):
    writer.write(DATA)
    writer.write_eof()
    expect("came back", await reader.read() == DATA[::-1], True)
    writer.close()


async def local():
    async with connect() as connection:
        reader, writer = await connection.open_connection("127.0.0.1", LAB["reverser"])
        await reversed_by(reader, writer)


async def remote():
    async def answer(reader, writer):
        writer.write((await reader.read())[::-1])
        writer.write_eof()
        await writer.drain()
        writer.close()

    async with connect() as connection:
        listener = await connection.start_server(
            lambda *_origin: answer, "127.0.0.1", 0, encoding=None
        )
        port = listener.get_port()
        await reversed_by(*await asyncio.open_connection("127.0.0.1", port))
        listener.close()


async def dynamic():
    async with connect() as connection:
        listener = await connection.forward_socks("127.0.0.1", 0)
        port = listener.get_port()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\5\1\0")
        expect("method", await reader.readexactly(2), b"\5\0")
        to = LAB["reverser"].to_bytes(2, "big")
        writer.write(b"\5\1\0\1\x7f\0\0\1" + to)
        expect("answer", (await reader.readexactly(10))[1], 0)
        await reversed_by(reader, writer)


async def agent():
    listed = "ssh-add -l"
    path = os.environ["SSH_AUTH_SOCK"]
    async with connect(agent_forwarding=path) as connection:
        answer = await connection.run(listed)
        if "ED25519" not in answer.stdout:
            sys.exit(f"the agent's keys are {answer.stdout!r} {answer.stderr!r}")
    async with connect() as connection:
        expect("keys without an agent", (await connection.run(listed)).stdout, "")


async def channels():
    async with connect() as connection:
        stalled = await connection.create_process("sleep 600", encoding=None)
        stalled.stdin.write(b"\0" * (64 << 20))

        async def other(number):
            text = f"{number}\n" * 1000
            answer = await connection.run("cat; exit 3", input=text)
            expect("answer", (answer.exit_status, answer.stdout), (3, text))

        await asyncio.gather(*map(other, range(19)))
        connection.abort()


async def sftp():
    async with connect() as connection, connection.start_sftp_client() as files:
        await files.put(LAB["local"], LAB["there"])
        await files.get(LAB["there"], LAB["back"])


async def scp():
    async with connect() as connection:
        await asyncssh.scp(LAB["local"], (connection, LAB["there"]))
        await asyncssh.scp((connection, LAB["there"]), LAB["back"])


async def there_and_back(**how):
    with open(LAB["local"], "rb") as file:
        data = file.read()
    async with connect(**how) as connection:
        answer = await connection.run("cat", input=data, encoding=None)
        return answer.stdout == data


NAMES = {
    "kex": "kex_algs",
    "host key": "server_host_key_algs",
    "cipher": "encryption_algs",
    "mac": "mac_algs",
}


async def algorithms():
    for kind, name in LAB["algorithms"]:
        how = {NAMES[kind]: [name]}
        if kind == "mac":
            how["encryption_algs"] = ["aes128-ctr"]
        try:
            print("ok" if await there_and_back(**how) else "other bytes", flush=True)
        except ValueError:
            # It does not have that.
            print("–", flush=True)
        except Exception as error:
            print(repr(error), flush=True)


async def load():
    changes = 0
    original = asyncssh.connection.SSHConnection.send_newkeys

    def counted(*how):
        nonlocal changes
        changes += 1
        original(*how)

    asyncssh.connection.SSHConnection.send_newkeys = counted
    how = {"rekey_bytes": 1 << 16} if LAB["rekeys"] else {}
    expect("came back", await there_and_back(**how), True)
    print(changes)


async def version():
    print(asyncssh.__version__)


named = {name.rstrip("_"): it for name, it in list(globals().items()) if callable(it)}
asyncio.run(named[sys.argv[1]]())
