package esker;

/** A key and its value. The arrays belong to the caller. */
public record Entry(byte[] key, byte[] value) {}
