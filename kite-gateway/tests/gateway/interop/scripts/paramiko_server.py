"""paramiko as a machine's server, one for each of the ports that it is told."""

import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import paramiko

LAB = json.loads(os.environ["KITE_INTEROP_LAB"])
REFUSED = paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
PIECE = 1 << 15


def beside(work, *arguments):
    threading.Thread(target=work, args=arguments, daemon=True).start()


def carry(read, write, end):
    try:
        while data := read(PIECE):
            write(data)
    except OSError:
        # A terminal that was left, or a process that does not read.
        pass
    end()


class Machine(paramiko.ServerInterface):
    def __init__(self):
        with open(LAB["authorized_keys"]) as file:
            self.known = file.read().split()[1]
        self.sessions = 0
        self.terminals = {}
        self.forwards = {}

    def get_allowed_auths(self, _user):
        return "publickey"

    def check_auth_publickey(self, _user, key):
        is_known = key.get_base64() == self.known
        return paramiko.AUTH_SUCCESSFUL if is_known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, _number):
        if kind != "session" or self.sessions >= LAB["sessions"]:
            return REFUSED
        self.sessions += 1
        return paramiko.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(self, number, _origin, to):
        try:
            self.forwards[number] = socket.create_connection(to)
        except OSError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, channel, _term, columns, rows, *_more):
        self.terminals[channel.get_id()] = (rows, columns)
        return True

    def check_channel_shell_request(self, channel):
        beside(self.terminal, channel, self.terminals.pop(channel.get_id()))
        return True

    def check_channel_exec_request(self, channel, command):
        beside(self.command, channel, command)
        return True

    def command(self, channel, command):
        # It answers the request only once this one was called: an end before is none.
        time.sleep(0.1)
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            ["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
        )

        def close():
            try:
                child.stdin.close()
            except OSError:
                pass

        beside(carry, channel.recv, lambda data: write_all(child.stdin, data), close)
        errors = threading.Thread(
            target=carry, args=(child.stderr.read, channel.sendall_stderr, lambda: None)
        )
        errors.start()
        carry(child.stdout.read, channel.sendall, lambda: None)
        errors.join()
        self.end(channel, child.wait())

    def terminal(self, channel, size):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        child = subprocess.Popen(
            ["sh"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "SSH_TTY": os.ttyname(slave)},
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(slave)
        beside(carry, channel.recv, lambda data: os.write(master, data), lambda: None)
        carry(lambda size: os.read(master, size), channel.sendall, lambda: None)
        self.end(channel, child.wait())

    def end(self, channel, code):
        self.sessions -= 1
        try:
            channel.send_exit_status(code)
            channel.close()
        except OSError:
            # Its client has left.
            pass


def write_all(file, data):
    while data:
        data = data[file.write(data) :]


def serve(stream, forced):
    transport = paramiko.Transport(stream)
    transport.add_server_key(paramiko.Ed25519Key(filename=LAB["host_key"]))
    options = transport.get_security_options()
    for name, names in (("kex", "kex"), ("ciphers", "cipher"), ("digests", "mac")):
        if forced[names]:
            setattr(options, name, forced[names])
    machine = Machine()
    # A channel that nothing holds is closed.
    channels = []
    transport.start_server(server=machine)
    while transport.is_active():
        channel = transport.accept(1)
        channels.append(channel)
        forward = channel and machine.forwards.pop(channel.get_id(), None)
        if forward:
            shut = lambda to=forward: to.shutdown(socket.SHUT_WR)
            beside(carry, channel.recv, forward.sendall, shut)
            beside(carry, forward.recv, channel.sendall, channel.close)


def listen(it):
    listener = socket.create_server(("127.0.0.1", it["port"]))
    while True:
        beside(serve, listener.accept()[0], it)


if sys.argv[1] == "version":
    print(paramiko.__version__)
else:
    for it in LAB["listens"][1:]:
        beside(listen, it)
    listen(LAB["listens"][0])
