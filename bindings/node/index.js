'use strict'

const native = require(process.env.ESKER_NODE || './esker.node')

const ATTEMPTS_MAX = 100
// A scan reads as many entries in one task.
const ENTRIES = 256

function bytes (given) {
  if (typeof given === 'string') return Buffer.from(given)
  if (given instanceof Uint8Array) return given
  throw new TypeError(`keys and values are strings or Uint8Arrays, not ${typeof given}`)
}

class Db {
  #db

  static async open (dir, settings = {}) {
    const byName = Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [name, String(value)]))
    const db = new Db()
    db.#db = await native.open(dir, byName)
    return db
  }

  async keyspace (name) {
    return new Keyspace(await this.#db.keyspace(name))
  }

  async transact (work) {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const tx = await this.#db.begin()
      try {
        const done = await work(new Transaction(tx))
        if (await tx.commit()) return done
      } finally {
        await tx.rollback()
      }
    }
    throw new Error(`the transaction conflicted with others ${ATTEMPTS_MAX} times`)
  }

  close () {
    return this.#db.close()
  }
}

class Keyspace {
  constructor (native) {
    // Not enumerable, so that a keyspace is printed without it.
    Object.defineProperty(this, 'native', { value: native })
  }

  async get (key) {
    return this.native.get(bytes(key))
  }

  async put (key, value) {
    return this.native.put(bytes(key), bytes(value))
  }

  async delete (key) {
    return this.native.delete(bytes(key))
  }

  async * scan ({ prefix = '', reverse = false } = {}) {
    const scan = await this.native.scan(bytes(prefix), reverse)
    try {
      for (;;) {
        const found = await scan.next(ENTRIES)
        if (found.length === 0) return
        for (let at = 0; at < found.length; at += 2) yield [found[at], found[at + 1]]
      }
    } finally {
      // Also after a `break`: compaction keeps what the scan sees.
      await scan.close()
    }
  }
}

class Transaction {
  #tx

  constructor (tx) {
    this.#tx = tx
  }

  async get (keyspace, key) {
    return this.#tx.get(keyspace.native, bytes(key))
  }

  async put (keyspace, key, value) {
    return this.#tx.put(keyspace.native, bytes(key), bytes(value))
  }

  async delete (keyspace, key) {
    return this.#tx.delete(keyspace.native, bytes(key))
  }
}

module.exports = { Db, Keyspace, Transaction }
