'use strict'

const assert = require('node:assert/strict')
const fs = require('node:fs/promises')
const os = require('node:os')
const path = require('node:path')
const { test } = require('node:test')
const { Db } = require('.')

const SMALL = { segment_bytes: '1MiB', memory_bytes: '16MiB' }

function withDb (name, body) {
  test(name, async () => {
    const dir = await fs.mkdtemp(path.join(os.tmpdir(), 'esker-'))
    try {
      const db = await Db.open(dir, SMALL)
      try {
        await body(db, dir)
      } finally {
        await db.close()
      }
    } finally {
      await fs.rm(dir, { recursive: true })
    }
  })
}

async function all (scan) {
  const found = []
  for await (const [key, value] of scan) found.push(`${key}=${value}`)
  return found
}

withDb('puts, gets and deletes', async (db) => {
  const users = await db.keyspace('users')
  await users.put('ada', 'analyst')
  assert.equal(String(await users.get('ada')), 'analyst')
  await users.put(Buffer.from([0, 255]), new Uint8Array([1, 2]))
  assert.deepEqual(await users.get(Buffer.from([0, 255])), Buffer.from([1, 2]))
  await users.put('', '')
  assert.deepEqual(await users.get(''), Buffer.alloc(0))
  await users.delete('ada')
  assert.equal(await users.get('ada'), null)
})

withDb('a value may be changed once a call has begun', async (db) => {
  const users = await db.keyspace('users')
  const value = Buffer.from('analyst')
  const put = users.put('ada', value)
  value.fill('x')
  await put
  assert.equal(String(await users.get('ada')), 'analyst')
})

withDb('a scan reads all entries of a prefix, both ways', async (db) => {
  const users = await db.keyspace('users')
  for (let number = 0; number < 1000; number++) {
    await users.put(String(number).padStart(4, '0'), String(number))
  }
  assert.equal((await all(users.scan())).length, 1000)
  assert.deepEqual(await all(users.scan({ prefix: '099' })), [
    '0990=990', '0991=991', '0992=992', '0993=993', '0994=994',
    '0995=995', '0996=996', '0997=997', '0998=998', '0999=999'
  ])
  for await (const [key] of users.scan({ prefix: '0', reverse: true })) {
    assert.equal(String(key), '0999')
    break
  }
})

withDb('a transaction commits, or rolls back', async (db) => {
  const accounts = await db.keyspace('accounts')
  await accounts.put('ada', '100')
  const left = await db.transact(async (tx) => {
    const ada = Number(await tx.get(accounts, 'ada')) - 30
    await tx.put(accounts, 'ada', String(ada))
    await tx.put(accounts, 'bob', '30')
    return ada
  })
  assert.equal(left, 70)
  assert.deepEqual(await all(accounts.scan()), ['ada=70', 'bob=30'])
  await assert.rejects(db.transact(async (tx) => {
    await tx.delete(accounts, 'ada')
    throw new Error('no')
  }), /no/)
  assert.deepEqual(await all(accounts.scan()), ['ada=70', 'bob=30'])
})

withDb('a transaction runs again after a conflict', async (db) => {
  const counters = await db.keyspace('counters')
  let runs = 0
  await db.transact(async (tx) => {
    const count = Number(await tx.get(counters, 'n'))
    if (runs++ === 0) await counters.put('n', '10')
    await tx.put(counters, 'n', String(count + 1))
  })
  assert.equal(runs, 2)
  assert.equal(String(await counters.get('n')), '11')
})

withDb('data is there after a close, and calls of a closed database fail', async (db, dir) => {
  const users = await db.keyspace('users')
  await users.put('ada', 'analyst')
  await db.close()
  await assert.rejects(users.get('ada'), /closed/)
  await assert.rejects(db.keyspace('users'), /closed/)
  const again = await Db.open(dir)
  assert.equal(String(await (await again.keyspace('users')).get('ada')), 'analyst')
  await again.close()
})

test('a wrong setting is refused with the one that is nearest', async () => {
  await assert.rejects(Db.open(path.join(os.tmpdir(), 'esker-none'), { memory_byte: 1 }),
    /memory_bytes/)
})

withDb('a panic is an error of the call', async (db) => {
  const native = require(process.env.ESKER_NODE || './esker.node')
  if (!native.panic) {
    console.error('SKIPPED a panic: build with --features panic, as bindings/node/test does')
    return
  }
  await assert.rejects(native.panic(), /as the test asked/)
  await (await db.keyspace('users')).put('ada', 'analyst')
})

withDb('what is no key is refused by a rejection', async (db) => {
  const users = await db.keyspace('users')
  for (const call of [() => users.get(5), () => users.put('a'), () => users.delete(null)]) {
    await assert.rejects(call(), TypeError)
  }
  await assert.rejects(db.transact((tx) => tx.put(users, 'a', 7)), TypeError)
})

withDb('a scan of long values is read in small steps, and may be left', async (db) => {
  const users = await db.keyspace('users')
  for (let number = 0; number < 20; number++) await users.put(`${number}`, Buffer.alloc(200_000))
  let count = 0
  for await (const [, value] of users.scan()) count += value.length
  assert.equal(count, 20 * 200_000)
  const scan = await users.native.scan(Buffer.from(''), false)
  assert.equal((await scan.next(256)).length, 4)
  await scan.close()
  await assert.rejects(scan.next(256), /closed/)
  for await (const _ of users.scan()) break
})

withDb('calls that are not awaited may outlive their transaction', async (db) => {
  const users = await db.keyspace('users')
  const left = []
  await assert.rejects(db.transact(async (tx) => {
    for (let number = 0; number < 100; number++) left.push(tx.get(users, `${number}`))
    throw new Error('no')
  }), /no/)
  for (const ended of await Promise.allSettled(left)) {
    if (ended.status === 'rejected') assert.match(String(ended.reason), /committed or rolled back/)
  }
})
