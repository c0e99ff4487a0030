package esker;

/** A call that failed: the message names what failed, why, and what to do. */
public class EskerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Made by the library. */
    public EskerException(String message) {
        super(message);
    }
}
