// ssh2 as a machine's server, one for each of the ports that it is told.
'use strict';

const { spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const path = require('path');
const { Server, utils } = require('ssh2');

const LAB = JSON.parse(process.env.KITE_INTEROP_LAB);

function login(context) {
  const known = utils.parseKey(fs.readFileSync(LAB.authorized_keys));
  const right = context.method === 'publickey'
    && context.key.data.equals(known.getPublicSSH())
    && (!context.signature || known.verify(context.blob, context.signature, context.hashAlgo));
  if (right) context.accept();
  else context.reject(['publickey']);
}

function machine(client) {
  let sessions = 0;
  client.on('authentication', login).on('error', () => {});
  client.on('session', (accept, reject) => {
    if (sessions >= LAB.sessions) return reject();
    sessions += 1;
    accept().on('exec', (accepted, _rejected, { command }) => {
      const stream = accepted();
      const child = spawn('sh', ['-c', command]);
      // Who does not read ends its input.
      child.stdin.on('error', () => {});
      stream.pipe(child.stdin);
      child.stdout.pipe(stream, { end: false });
      child.stderr.pipe(stream.stderr, { end: false });
      child.on('close', (code) => {
        stream.exit(code);
        stream.end();
        sessions -= 1;
      });
    });
  });
  client.on('tcpip', (accept, reject, { destIP, destPort }) => {
    const there = net.connect({ host: destIP, port: destPort, allowHalfOpen: true });
    there.once('error', reject).once('connect', () => {
      there.removeListener('error', reject);
      const stream = accept();
      there.on('error', () => stream.close());
      stream.pipe(there).pipe(stream);
    });
  });
}

function listen({ port, kex, cipher, mac }) {
  const forced = { kex, cipher, hmac: mac };
  const algorithms = Object.fromEntries(Object.entries(forced).filter(([, names]) => names));
  const hostKeys = [fs.readFileSync(LAB.host_key)];
  new Server({ hostKeys, algorithms }, machine).listen(port, '127.0.0.1');
}

if (process.argv[2] === 'version') {
  const main = path.dirname(require.resolve('ssh2'));
  console.log(JSON.parse(fs.readFileSync(path.join(main, '../package.json'))).version);
} else {
  LAB.listens.forEach(listen);
}
