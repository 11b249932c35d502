"""What libssh2 can do, one feature to a call."""

import base64
import json
import os
import socket
import sys
import threading

from ssh2 import session as library
from ssh2.error_codes import LIBSSH2_ERROR_EAGAIN
from ssh2.sftp import (
    LIBSSH2_FXF_CREAT,
    LIBSSH2_FXF_READ,
    LIBSSH2_FXF_TRUNC,
    LIBSSH2_FXF_WRITE,
)
from ssh2.utils import version as version_of

LAB = json.loads(os.environ["KITE_INTEROP_LAB"])
DATA = bytes(range(251)) * 4000
PIECE = 1 << 18
# What is not to be closed before this ends.
KEPT = []


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


METHODS = {
    "kex": [library.LIBSSH2_METHOD_KEX],
    "host key": [library.LIBSSH2_METHOD_HOSTKEY],
    "cipher": [library.LIBSSH2_METHOD_CRYPT_CS, library.LIBSSH2_METHOD_CRYPT_SC],
    "mac": [library.LIBSSH2_METHOD_MAC_CS, library.LIBSSH2_METHOD_MAC_SC],
}


def reached(*preferred):
    session = library.Session()
    for kind, name in preferred:
        for method in METHODS[kind]:
            session.method_pref(method, name)
    session.handshake(socket.create_connection((LAB["host"], LAB["port"])))
    with open(LAB["known_hosts"]) as known:
        keys = [base64.b64decode(line.split()[2]) for line in known]
    shown, _kind = session.hostkey()
    if shown not in keys:
        sys.exit("another host key")
    return session


def connect(*preferred):
    session = reached(*preferred)
    session.userauth_publickey_fromfile(LAB["user"], LAB["key"])
    return session


def read_all(read):
    parts = []
    while True:
        size, part = read()
        if size <= 0:
            expect("read", size, 0)
            return b"".join(parts)
        parts.append(part)


def write_all(it, data):
    data = memoryview(data)
    while data:
        _, size = it.write(bytes(data[:PIECE]))
        data = data[size:]


def ending(channel):
    output = read_all(channel.read)
    errors = read_all(channel.read_stderr)
    channel.close()
    channel.wait_closed()
    return channel.get_exit_status(), output, errors


def run(session, command, text=b""):
    channel = session.open_session()
    channel.execute(command)
    write_all(channel, text)
    channel.send_eof()
    return ending(channel)


def key():
    expect("exit code", run(connect(), "true")[0], 0)


def password():
    session = reached()
    session.userauth_password(LAB["user"], LAB["password"])
    expect("exit code", run(session, "true")[0], 0)


def interactive():
    session = reached()
    session.userauth_keyboardinteractive(LAB["user"], LAB["password"])
    expect("exit code", run(session, "true")[0], 0)


def exec_():
    session = connect()
    for code in (0, 7):
        expect("answer", run(session, f"cat; exit {code}", b"in\n"), (code, b"in\n", b""))
    expect("exit code", run(session, "exec >&- 2>&-; sleep 0.2; exit 7")[0], 7)


def signal():
    # Its binding gives no signal, also without a gateway, and 0 where there is no code.
    expect("exit code", run(connect(), "kill -TERM $$")[0], 0)
    print("0")


def stderr():
    answer = run(connect(), "echo out; echo err >&2; exit 7")
    expect("output", answer, (7, b"out\n", b"err\n"))


def shell():
    channel = connect().open_session()
    # Its binding does not tell a size: this is libssh2's own.
    channel.pty("xterm")
    channel.shell()
    typed = b"test \"$SSH_TTY\" = \"$(tty)\" && echo same''tty $(stty size); exit 3\n"
    write_all(channel, typed)
    code, output, _ = ending(channel)
    if b"sametty 24 80" not in output:
        sys.exit(f"the terminal said {output!r}")
    expect("exit code", code, 3)


def local():
    session = connect()
    channel = session.direct_tcpip("127.0.0.1", LAB["reverser"])
    write_all(channel, DATA)
    channel.send_eof()
    expect("came back", read_all(channel.read) == DATA[::-1], True)


def remote():
    session = connect()
    listener, port = session.forward_listen_ex(1, "127.0.0.1", 0)
    answer = []

    def outside():
        with socket.create_connection(("127.0.0.1", port)) as there:
            there.sendall(DATA)
            there.shutdown(socket.SHUT_WR)
            answer.append(there.makefile("rb").read())

    asking = threading.Thread(target=outside)
    asking.start()
    channel = listener.forward_accept()
    write_all(channel, read_all(channel.read)[::-1])
    channel.send_eof()
    channel.close()
    asking.join()
    expect("came back", answer[0] == DATA[::-1], True)


def channels():
    session = connect()
    stalled = session.open_session()
    stalled.execute("sleep 600")
    session.set_blocking(False)
    while True:
        answer, _ = stalled.write(b"\0" * PIECE)
        if answer == LIBSSH2_ERROR_EAGAIN:
            break
    session.set_blocking(True)
    others = [session.open_session() for _ in range(19)]
    for channel in others:
        channel.execute("cat; exit 3")
    for number, channel in enumerate(others):
        write_all(channel, b"%d\n" % number * 1000)
        channel.send_eof()
    for number, channel in enumerate(others):
        expect("answer", ending(channel), (3, b"%d\n" % number * 1000, b""))
    # It would wait for the end of the one that is not read.
    KEPT.append(stalled)


def sftp():
    files = connect().sftp_init()
    flags = LIBSSH2_FXF_CREAT | LIBSSH2_FXF_WRITE | LIBSSH2_FXF_TRUNC
    with open(LAB["local"], "rb") as local, files.open(LAB["there"], flags, 0o600) as there:
        while part := local.read(PIECE):
            write_all(there, part)
    with open(LAB["back"], "wb") as back, files.open(LAB["there"], LIBSSH2_FXF_READ, 0) as there:
        for size, part in there:
            back.write(part)


def scp():
    session = connect()
    size = os.path.getsize(LAB["local"])
    channel = session.scp_send64(LAB["there"], 0o600, size, 0, 0)
    with open(LAB["local"], "rb") as local:
        while part := local.read(PIECE):
            write_all(channel, part)
    channel.send_eof()
    channel.wait_eof()
    channel.wait_closed()
    channel, found = connect().scp_recv2(LAB["there"])
    left = found.st_size
    with open(LAB["back"], "wb") as back:
        while left:
            read, part = channel.read(min(left, PIECE))
            back.write(part)
            left -= read


def there_and_back(session):
    with open(LAB["local"], "rb") as file:
        data = file.read()
    channel = session.open_session()
    channel.execute("cat")
    back = b""
    # Each piece comes back before the next: more than the window would stand still.
    for begin in range(0, len(data), PIECE):
        piece = data[begin : begin + PIECE]
        write_all(channel, piece)
        while len(back) < begin + len(piece):
            size, part = channel.read(PIECE)
            if size <= 0:
                sys.exit(f"read: {size} after {len(back)} bytes")
            back += part
    return back == data


def algorithms():
    for kind, name in LAB["algorithms"]:
        has = library.Session().supported_algs(METHODS[kind][0])
        if name not in has:
            print("–", flush=True)
            continue
        more = [("cipher", "aes128-ctr")] if kind == "mac" else []
        try:
            session = connect((kind, name), *more)
            print("ok" if there_and_back(session) else "other bytes", flush=True)
        except Exception as error:
            print(repr(error), flush=True)


def load():
    if LAB["rekeys"]:
        # It never asks for new keys itself.
        print("–")
    else:
        expect("came back", there_and_back(connect()), True)
        print("?")


def version():
    print(version_of().decode())


{name.rstrip("_"): it for name, it in list(globals().items()) if callable(it)}[sys.argv[1]]()
# What it would say in parting waits for others.
sys.stdout.flush()
os._exit(0)
