"""What a client is refused with: an HTTP status and one sentence."""


class Refusal(Exception):
    """Stands for an answer `{"error": sentence}` with this status.

    Args:
        status: of HTTP; 400 the request is wrong, 404 there is no such model, 413 it is too large, 429 the queue is
            full, 504 it took too long.
    """

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status
