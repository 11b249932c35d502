// What ssh2 can do, one feature to a call.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const net = require('net');
const path = require('path');
const { Client } = require('ssh2');

const LAB = JSON.parse(process.env.KITE_INTEROP_LAB);
const DATA = Buffer.alloc(1 << 20, Buffer.from([...Array(251).keys()]));

const fingerprint = (key) =>
  'SHA256:' + crypto.createHash('sha256').update(key).digest('base64').replace(/=+$/, '');

function connect(how = { privateKey: fs.readFileSync(LAB.key) }) {
  return new Promise((resolve, reject) => {
    const client = new Client();
    client.on('ready', () => resolve(client)).on('error', reject);
    client.on('keyboard-interactive', (_name, _text, _lang, prompts, finish) =>
      finish(prompts.map(() => LAB.password)));
    client.connect({
      host: LAB.host,
      port: LAB.port,
      username: LAB.user,
      hostVerifier: (key) => fingerprint(key) === LAB.fingerprint,
      ...how,
    });
  });
}

// What it has, by what the gateway's tests call it.
const HAS = require('ssh2/lib/protocol/constants.js');
const NAMES = {
  kex: ['kex', HAS.SUPPORTED_KEX],
  'host key': ['serverHostKey', HAS.SUPPORTED_SERVER_HOST_KEY],
  cipher: ['cipher', HAS.SUPPORTED_CIPHER],
  mac: ['hmac', HAS.SUPPORTED_MAC],
};

// A megabyte and more through `cat`: whether it comes back.
async function thereAndBack(client) {
  const data = fs.readFileSync(LAB.local);
  const stream = await ask(client, 'exec', 'cat');
  stream.stderr.resume();
  stream.end(data);
  return (await all(stream)).equals(data);
}

// The host key of an algorithm: the gateway has one of each kind.
const connectBy = (algorithms) =>
  connect({
    privateKey: fs.readFileSync(LAB.key),
    hostVerifier: (key) => LAB.fingerprints.includes(fingerprint(key)),
    algorithms,
  });

// A method that calls back, as a promise.
const ask = (it, method, ...args) =>
  new Promise((resolve, reject) =>
    it[method](...args, (error, answer) => (error ? reject(error) : resolve(answer))));

// Not by `for await`, which would close the other direction, too.
const all = (stream) =>
  new Promise((resolve, reject) => {
    const parts = [];
    stream.on('data', (part) => parts.push(part));
    stream.on('end', () => resolve(Buffer.concat(parts))).on('error', reject);
  });

// What came of a channel: both outputs and how it ended.
async function ending(stream) {
  const ended = new Promise((resolve) =>
    stream.on('exit', (code, signal) => resolve({ code, signal })));
  const [out, err] = await Promise.all([all(stream), all(stream.stderr)]);
  return { ...(await ended), out: out.toString(), err: err.toString() };
}

async function run(client, command, options = {}, input = '') {
  const stream = await ask(client, 'exec', command, options);
  stream.end(input);
  return ending(stream);
}

async function reversed(stream) {
  stream.end(DATA);
  assert.ok((await all(stream)).equals(Buffer.from(DATA).reverse()), 'other bytes');
}

const logsIn = async (how) => assert.strictEqual((await run(await connect(how), 'true')).code, 0);

const features = {
  key: () => logsIn(),
  password: () => logsIn({ password: LAB.password }),
  interactive: () => logsIn({ tryKeyboard: true, authHandler: ['keyboard-interactive'] }),

  async exec() {
    const client = await connect();
    for (const code of [0, 7]) {
      assert.strictEqual((await run(client, `exit ${code}`)).code, code);
    }
    assert.strictEqual((await run(client, 'exec >&- 2>&-; sleep 0.2; exit 7')).code, 7);
  },

  async signal() {
    const { code, signal } = await run(await connect(), 'kill -TERM $$');
    assert.strictEqual(code, null);
    assert.ok(['TERM', 'SIGTERM'].includes(signal), signal);
    console.log(signal);
  },

  async stderr() {
    const { code, out, err } = await run(await connect(), 'echo out; echo err >&2; exit 7');
    assert.deepStrictEqual([code, out, err], [7, 'out\n', 'err\n']);
  },

  async shell() {
    const stream = await ask(await connect(), 'shell', { rows: 33, cols: 91 });
    stream.write('test "$SSH_TTY" = "$(tty)" && echo same\'\'tty $(stty size); exit 3\n');
    const { code, out } = await ending(stream);
    assert.ok(out.includes('sametty 33 91'), out);
    assert.strictEqual(code, 3);
  },

  async local() {
    await reversed(await ask(await connect(), 'forwardOut', '127.0.0.1', 1, '127.0.0.1', LAB.reverser));
  },

  async remote() {
    const client = await connect();
    client.on('tcp connection', async (_info, accept) => {
      const stream = accept();
      stream.end(Buffer.from(await all(stream)).reverse());
    });
    const port = await ask(client, 'forwardIn', '127.0.0.1', 0);
    await reversed(net.connect({ port, host: '127.0.0.1', allowHalfOpen: true }));
    await ask(client, 'unforwardIn', '127.0.0.1', port);
  },

  async agent() {
    const client = await connect({
      privateKey: fs.readFileSync(LAB.key),
      agent: process.env.SSH_AUTH_SOCK,
    });
    const { out, err } = await run(client, 'ssh-add -l', { agentForward: true });
    assert.ok(out.includes('ED25519'), out + err);
    // sshd lets all sessions of a connection have it.
    const other = await connect();
    assert.strictEqual((await run(other, 'ssh-add -l')).out, '');
  },

  async channels() {
    const client = await connect();
    const stalled = await ask(client, 'exec', 'sleep 600');
    stalled.write(Buffer.alloc(64 << 20));
    await Promise.all([...Array(19).keys()].map(async (number) => {
      const text = `${number}\n`.repeat(1000);
      const { code, out } = await run(client, 'cat; exit 3', {}, text);
      assert.deepStrictEqual([code, out], [3, text]);
    }));
  },

  async sftp() {
    const files = await ask(await connect(), 'sftp');
    await ask(files, 'fastPut', LAB.local, LAB.there);
    await ask(files, 'fastGet', LAB.there, LAB.back);
  },

  async algorithms() {
    for (const [kind, name] of LAB.algorithms) {
      const [option, has] = NAMES[kind];
      if (!has.includes(name)) {
        console.log('–');
        continue;
      }
      const algorithms = { [option]: [name] };
      if (kind === 'mac') algorithms.cipher = ['aes128-ctr'];
      try {
        const client = await connectBy(algorithms);
        console.log((await thereAndBack(client)) ? 'ok' : 'other bytes');
        client.end();
      } catch (error) {
        console.log(String(error));
      }
    }
  },

  async load() {
    assert.ok(await thereAndBack(await connect()), 'other bytes');
    console.log('?');
  },

  version() {
    const main = path.dirname(require.resolve('ssh2'));
    console.log(JSON.parse(fs.readFileSync(path.join(main, '../package.json'))).version);
  },
};

Promise.resolve(features[process.argv[2]]()).then(
  () => process.exit(0),
  (error) => {
    console.error(error.stack || error);
    process.exit(1);
  },
);
