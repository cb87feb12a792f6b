// What node-postgres needs: `PG=DIRECTORY/node_modules/pg/lib/index.js node pg.mjs URL`.

import assert from 'node:assert';

const { default: pg } = await import(process.env.PG);
const client = new pg.Client({ connectionString: process.argv[2] });
await client.connect();
await client.query('CREATE TABLE node (id BIGINT PRIMARY KEY, s VARCHAR)');
await client.query('INSERT INTO node VALUES ($1, $2)', [1, 'a']);
assert.deepEqual((await client.query('SELECT * FROM node')).rows, [{ id: '1', s: 'a' }]);
const tables = await client.query('SELECT relname, relhasindex FROM pg_class WHERE relname = $1 AND relkind = ANY($2)', ['node', ['r', 'v']]);
assert.deepEqual(tables.rows, [{ relname: 'node', relhasindex: true }]);
const columns = await client.query({ name: 'c', text: "SELECT column_name, ordinal_position FROM information_schema.columns WHERE table_name = $1 ORDER BY 2", values: ['node'] });
assert.deepEqual(columns.rows, [{ column_name: 'id', ordinal_position: 1 }, { column_name: 's', ordinal_position: 2 }]);
assert.equal((await client.query("SELECT 'node'::regclass AS name")).rows[0].name, 'node');
assert.deepEqual((await client.query('SELECT current_schemas(true) AS s')).rows[0].s, '{pg_catalog,public}');
await assert.rejects(client.query('SELECT nosuch FROM pg_class'), (error) => error.code === '42703');
await client.end();
console.log('node ok');
