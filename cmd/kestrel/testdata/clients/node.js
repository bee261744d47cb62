// The npm package memcached against a server: node.js PORT. One connection, for open reads belong to it.
const Memcached = require('memcached');
const assert = require('node:assert');

const client = new Memcached(`127.0.0.1:${process.argv[2]}`, { poolSize: 1, retries: 0, timeout: 10000 });

// call runs a method of the client that takes a callback.
const call = (method, ...args) => new Promise((resolve, reject) => {
  client[method](...args, (error, data) => (error ? reject(error) : resolve(data)));
});

const want = (what, got, expected) => {
  assert.deepStrictEqual(got, expected, `${what}: got ${JSON.stringify(got)}`);
  console.log(`${what}: ok`);
};

(async () => {
  want('put', [await call('set', 'nd', 'one', 0), await call('set', 'nd', 'two', 0)], [true, true]);
  want('get', await call('get', 'nd'), 'one');
  want('open', await call('get', 'nd/open'), 'two');
  want('abort', await call('get', 'nd/abort'), undefined);
  want('open', await call('get', 'nd/open'), 'two');
  want('close', await call('get', 'nd/close'), undefined);
  want('it is gone', await call('get', 'nd'), undefined);
  const started = Date.now();
  want('timed get of nothing', await call('get', 'nd/t=300'), undefined);
  want('it waited', Date.now() - started >= 295, true);
  await call('set', 'nd', 'three', 0);
  want('timed get', await call('get', 'nd/t=5000'), 'three');
  await call('set', 'nd', { an: 'object' }, 0);
  want('an object, which is JSON by its flags', await call('get', 'nd'), { an: 'object' });
  await call('set', 'nd', 'four', 0);
  want('delete', await call('del', 'nd'), true);
  want('get after delete', await call('get', 'nd'), undefined);
  const [stats] = await call('stats');
  want('stats', [stats.version, stats.cmd_set > 0], ['3.0.0', true]);
  const [version] = await call('version');
  want('version', version.version, '3.0.0');
  client.end();
})().catch((error) => {
  console.log(String(error));
  process.exit(1);
});
