"""What paramiko can do, one feature to a call."""

import json
import os
import sys
import threading
import time

import paramiko

LAB = json.loads(os.environ["KITE_INTEROP_LAB"])
DATA = bytes(range(251)) * 4000


def connect(**how):
    client = paramiko.SSHClient()
    client.load_host_keys(LAB["known_hosts"])
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    how = how or {"key_filename": LAB["key"]}
    client.connect(
        LAB["host"],
        LAB["port"],
        LAB["user"],
        allow_agent=False,
        look_for_keys=False,
        **how,
    )
    return client


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


def key():
    expect("exit code", run(connect(), "true")[0], 0)


def password():
    expect("exit code", run(connect(password=LAB["password"]), "true")[0], 0)


def interactive():
    known = paramiko.HostKeys(LAB["known_hosts"])
    transport = paramiko.Transport((LAB["host"], LAB["port"]))
    transport.start_client()
    shown = transport.get_remote_server_key()
    if not known.check(f"[{LAB['host']}]:{LAB['port']}", shown):
        sys.exit("another host key")
    answers = lambda _title, _text, prompts: [LAB["password"]] * len(prompts)
    expect("more to do", transport.auth_interactive(LAB["user"], answers), [])
    transport.close()


def run(client, command):
    channel = client.get_transport().open_session()
    channel.exec_command(command)
    channel.shutdown_write()
    output = channel.makefile("rb").read()
    errors = channel.makefile_stderr("rb").read()
    return channel.recv_exit_status(), output, errors


def exec_():
    client = connect()
    for code in (0, 7):
        expect("exit code", run(client, f"exit {code}")[0], code)
    expect("exit code", run(client, "exec >&- 2>&-; sleep 0.2; exit 7")[0], 7)


def signal():
    # It does not look at signals, and says -1 where there is no code.
    expect("exit code", run(connect(), "kill -TERM $$")[0], -1)
    print("-1")


def stderr():
    answer = run(connect(), "echo out; echo err >&2; exit 7")
    expect("output", answer, (7, b"out\n", b"err\n"))


def shell():
    channel = connect().invoke_shell(term="xterm", width=91, height=33)
    channel.sendall(b"test \"$SSH_TTY\" = \"$(tty)\" && echo same''tty $(stty size); exit 3\n")
    output = channel.makefile("rb").read()
    if b"sametty 33 91" not in output:
        sys.exit(f"the terminal said {output!r}")
    expect("exit code", channel.recv_exit_status(), 3)


def read_all(channel):
    return channel.makefile("rb").read()


def local():
    transport = connect().get_transport()
    to = ("127.0.0.1", LAB["reverser"])
    channel = transport.open_channel("direct-tcpip", to, ("127.0.0.1", 1))
    channel.sendall(DATA)
    channel.shutdown_write()
    expect("came back", read_all(channel) == DATA[::-1], True)


def remote():
    import socket

    def answer(channel, _origin, _server):
        def work():
            channel.sendall(read_all(channel)[::-1])
            channel.close()

        threading.Thread(target=work, daemon=True).start()

    transport = connect().get_transport()
    port = transport.request_port_forward("127.0.0.1", 0, answer)
    with socket.create_connection(("127.0.0.1", port)) as there:
        there.sendall(DATA)
        there.shutdown(socket.SHUT_WR)
        expect("came back", there.makefile("rb").read() == DATA[::-1], True)
    transport.cancel_port_forward("127.0.0.1", port)


def agent():
    client = connect()
    channel = client.get_transport().open_session()
    forwarded = paramiko.agent.AgentRequestHandler(channel)
    channel.exec_command("ssh-add -l")
    output = read_all(channel)
    forwarded.close()
    if b"ED25519" not in output:
        sys.exit(f"the agent's keys are {output!r}")
    # sshd lets all sessions of a connection have it.
    _, output, _ = run(connect(), "ssh-add -l")
    expect("keys without an agent", output, b"")


def channels():
    transport = connect().get_transport()
    stalled = transport.open_session()
    stalled.exec_command("sleep 600")
    # On and on: the gateway never stops to take a little of it.
    data = b"\0" * (64 << 20)
    threading.Thread(target=stalled.sendall, args=(data,), daemon=True).start()
    time.sleep(1)
    others = []
    for _ in range(19):
        channel = transport.open_session()
        channel.exec_command("cat; exit 3")
        others.append(channel)
    for number, channel in enumerate(others):
        channel.sendall(b"%d\n" % number * 1000)
        channel.shutdown_write()
    for number, channel in enumerate(others):
        expect("answer", read_all(channel), b"%d\n" % number * 1000)
        expect("exit code", channel.recv_exit_status(), 3)


def sftp():
    files = connect().open_sftp()
    files.put(LAB["local"], LAB["there"])
    files.get(LAB["there"], LAB["back"])


class Forced(paramiko.Transport):
    """One that has but one algorithm, and counts how often its keys change."""

    algorithm = None
    changes = 0

    def __init__(self, *how, **more):
        super().__init__(*how, **more)
        names = {"kex": "kex", "host key": "key_types", "cipher": "ciphers", "mac": "digests"}
        if self.algorithm:
            kind, name = self.algorithm
            options = self.get_security_options()
            setattr(options, names[kind], (name,))
            if kind == "mac":
                options.ciphers = ("aes128-ctr",)

    def _activate_inbound(self):
        self.changes += 1
        super()._activate_inbound()


def there_and_back(client):
    with open(LAB["local"], "rb") as file:
        data = file.read()
    channel = client.get_transport().open_session()
    channel.exec_command("cat")

    def write():
        channel.sendall(data)
        channel.shutdown_write()

    threading.Thread(target=write, daemon=True).start()
    return read_all(channel) == data


def algorithms():
    for Forced.algorithm in LAB["algorithms"]:
        try:
            client = connect(key_filename=LAB["key"], transport_factory=Forced)
            print("ok" if there_and_back(client) else "other bytes", flush=True)
        except ValueError:
            # It does not have that.
            print("–", flush=True)
        except Exception as error:
            print(repr(error), flush=True)


def load():
    client = connect(key_filename=LAB["key"], transport_factory=Forced)
    expect("came back", there_and_back(client), True)
    print(client.get_transport().changes)


def version():
    print(paramiko.__version__)


{name.rstrip("_"): it for name, it in list(globals().items()) if callable(it)}[sys.argv[1]]()
# Its threads would wait for connections that nobody closes.
sys.stdout.flush()
os._exit(0)
