package esker;

/** A call of something that was closed, or whose database was. */
public final class ClosedException extends EskerException {
    private static final long serialVersionUID = 1;

    /** Made by the library. */
    public ClosedException(String message) {
        super(message);
    }
}
