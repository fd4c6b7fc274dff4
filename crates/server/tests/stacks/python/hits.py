"""Counts the requests that reached the login, by identity."""

from collections import Counter
from threading import Lock

_hits = Counter()
_lock = Lock()


def hit(session, key, token, user):
    """Records one hit, and returns the body of the login's response."""
    parts = {"session": session, "key": key, "token": token, "user": user}
    identity = " ".join(f"{name}={'-' if value is None else value}" for name, value in parts.items())
    with _lock:
        _hits[identity] += 1
    return f"login {identity}\n"


def all():
    with _lock:
        return dict(_hits)


def bearer(header):
    """The token of an Authorization header."""
    parts = (header or "").split()
    return parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" else None
