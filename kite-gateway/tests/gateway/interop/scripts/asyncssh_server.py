"""asyncssh as a machine's server, one for each of the ports that it is told."""

import asyncio
import fcntl
import json
import os
import struct
import sys
import termios

import asyncssh

LAB = json.loads(os.environ["KITE_INTEROP_LAB"])


class Machine(asyncssh.SSHServer):
    sessions = 0

    def session_requested(self):
        if self.sessions >= LAB["sessions"]:
            reason = asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED
            raise asyncssh.ChannelOpenError(reason, "too many sessions")
        self.sessions += 1
        return asyncssh.SSHServerProcess(self.session, asyncssh.SFTPServer, 3, False)

    def connection_requested(self, host, port, *_origin):
        return True

    async def session(self, process):
        try:
            await (terminal if process.term_type else command)(process)
        finally:
            self.sessions -= 1


async def carry(reader, writer):
    while data := await reader.read(1 << 15):
        writer.write(data)
        await writer.drain()


async def command(process):
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", process.command, stdin=pipe, stdout=pipe, stderr=pipe
    )

    async def typed():
        try:
            await carry(process.stdin, child.stdin)
        except OSError:
            # It does not read all of it.
            pass
        child.stdin.close()

    typing = asyncio.ensure_future(typed())
    try:
        await asyncio.gather(
            carry(child.stdout, process.stdout), carry(child.stderr, process.stderr)
        )
        process.exit(await child.wait())
    except OSError:
        # Its client has left.
        child.kill()
    typing.cancel()


async def terminal(process):
    master, slave = os.openpty()
    columns, rows, _, _ = process.term_size
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    child = await asyncio.create_subprocess_exec(
        "sh",
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "SSH_TTY": os.ttyname(slave)},
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
    )
    os.close(slave)

    async def typed():
        while data := await process.stdin.read(1024):
            os.write(master, data)

    typing = asyncio.ensure_future(typed())
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = await loop.run_in_executor(None, os.read, master, 1024)
        except OSError:
            # The last one has left the terminal.
            break
        process.stdout.write(data)
    typing.cancel()
    process.exit(await child.wait())


async def serve():
    for it in LAB["listens"]:
        forced = {"kex_algs": it["kex"], "encryption_algs": it["cipher"], "mac_algs": it["mac"]}
        await asyncssh.listen(
            "127.0.0.1",
            it["port"],
            server_factory=Machine,
            server_host_keys=[LAB["host_key"]],
            authorized_client_keys=LAB["authorized_keys"],
            encoding=None,
            **{name: names for name, names in forced.items() if names},
        )
    await asyncio.Event().wait()


if sys.argv[1] == "version":
    print(asyncssh.__version__)
else:
    asyncio.run(serve())
