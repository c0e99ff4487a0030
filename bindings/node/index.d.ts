/** A key or a value. A string is stored as UTF-8. */
export type Bytes = Uint8Array | string

/** An open database: a directory of ordered keyspaces. */
export class Db {
  /** Opens a database, or creates it. Settings are by name, such as `memory_bytes: '256MiB'`. */
  static open (dir: string, settings?: Record<string, string | number | boolean>): Promise<Db>
  /** Opens a keyspace, or creates it. */
  keyspace (name: string): Promise<Keyspace>
  /**
   * Runs `work` in a transaction, and commits it. After an exception it rolls back. After a conflict
   * `work` runs again, so it should change nothing but the database.
   */
  transact<T> (work: (tx: Transaction) => Promise<T>): Promise<T>
  /** Flushes what is in memory, and releases the files. */
  close (): Promise<void>
}

/** A named, ordered set of keys. */
export class Keyspace {
  private constructor ()
  /** Returns the value of a key, or null. */
  get (key: Bytes): Promise<Buffer | null>
  /** Sets a key to a value. */
  put (key: Bytes, value: Bytes): Promise<void>
  /** Deletes a key, whether it exists or not. */
  delete (key: Bytes): Promise<void>
  /** Iterates over the entries whose keys start with a prefix, at a snapshot. */
  scan (range?: { prefix?: Bytes, reverse?: boolean }): AsyncGenerator<[Buffer, Buffer], void>
}

/** Reads and writes that commit together or not at all. */
export class Transaction {
  private constructor ()
  /** Returns the value of a key, or null. The commit conflicts if another changes the key. */
  get (keyspace: Keyspace, key: Bytes): Promise<Buffer | null>
  /** Sets a key to a value. */
  put (keyspace: Keyspace, key: Bytes, value: Bytes): Promise<void>
  /** Deletes a key. */
  delete (keyspace: Keyspace, key: Bytes): Promise<void>
}
