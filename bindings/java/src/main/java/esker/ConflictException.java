package esker;

/** A transaction that conflicts with another one. It may succeed if it is run again from its start. */
public final class ConflictException extends EskerException {
    private static final long serialVersionUID = 1;

    /** Made by the library. */
    public ConflictException(String message) {
        super(message);
    }
}
