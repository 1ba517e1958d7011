"""How long a connection may take over a request's head, how large that may be, and how many connections there may be.

In: uvicorn's HTTP/1.1 protocol over httptools. Out: the same with limits that uvicorn does not have: a client that
sends its head byte by byte, or without an end, or the rest of a body that nobody wants, or takes no answer, is let go;
so is one that asks for many things before it has an answer, and connections above the cap are turned away at once.
Trailers are no headers, and are dropped; an offer of another protocol is read as if it were not there.
"""

import asyncio
import json
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lookalike.server.problems import BUSY_S, error_body
from lookalike.server.settings import Budget

UNENDING = 64 * 2**10
"""Bytes that may come in after the piece in which a head began, before it ends. Of a whole one `guard` takes less."""
PIPELINED = 16
"""Requests that may wait behind the one that is being answered."""


class Patient(HttpToolsProtocol):
    """A connection. `budget` is set by `patient`."""

    budget = Budget()

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None  # what is being answered, or was last; `cycle` came in last
        self._stage = "idle"  # of the request that comes in: "head", "body", and idle again
        self._bytes = 0  # of its head, so far
        self._trouble = ""  # what is wrong with it, where we know better than the parser

    @property
    def _waits(self) -> bool:
        """Whether it is the client's turn: there is nothing to answer."""
        return self._answered is None or self._answered.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects."""
        super().connection_made(transport)
        if len(self.connections) > self.budget.connections:
            message = "The service has too many connections. Try again in a moment."
            self._answer(503, "Service Unavailable", "busy", message, f"retry-after: {BUSY_S}\r\n")
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody leaves."""
        self._unset()
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something comes in."""
        if self.transport.is_closing():
            return
        if self._stage == "head":
            self._bytes += len(data)
            if self._bytes > UNENDING:
                self.send_400_response("The head of the request has no end.")
                return
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        self._look()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._stage, self._bytes = "head", 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, which could say who somebody is after they were asked."""
        if self._stage == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request's head is there."""
        if self.parser.should_upgrade():
            return  # it is read again, by `_parse`
        self._stage = "body"
        if len(self.pipeline) >= PIPELINED:
            self._trouble = f"More than {PIPELINED} requests wait for an answer. Send fewer at once."
            raise ValueError(self._trouble)  # ends the parsing; then comes `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of a request is there."""
        if self.parser.should_upgrade():
            return
        self._stage = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered; until the next one begins, uvicorn's own timer runs."""
        super().on_response_complete()
        self._unset()
        if self.transport.is_closing():
            self._hang_up()
        elif self._stage != "idle":
            self._look()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came for a while."""
        super().timeout_keep_alive_handler()
        self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """What came in is not HTTP."""
        self._answer(400, "Bad Request", "input", self._trouble or f"{msg} Send HTTP/1.1.")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """It is a request's turn. Where its answer breaks off, nobody waits for the client to take what is there."""

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if not cycle.response_complete:
                cycle.disconnected = True
                self.transport.abort()

        self._answered = cycle
        super()._start_asgi_task(cycle, answer)

    def _parse(self, data: bytes) -> None:
        """Have the parser read this. It stops after a head that offers another protocol: another one goes on."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method = self.parser.get_method()
            if method == b"CONNECT":  # which is one whatever its headers
                raise httptools.HttpParserError from None
            head = [b"%s %s HTTP/%s" % (method, self.url, self.parser.get_http_version().encode())]
            head += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self._parse(b"\r\n".join(head) + b"\r\n\r\n" + data[offer.args[0] :])

    def _look(self) -> None:
        """Have a timer run while a head, or the rest of a body that nobody reads, is under way."""
        if self.transport.is_closing() or not self._waits:
            self._unset()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.budget.header_s, self._late)

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._answer(408, "Request Timeout", "too-slow", "The request came too slowly. Send it again, faster.")

    def _unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _answer(self, status: int, phrase: str, kind: str, message: str, more: str = "") -> None:
        """Answer without an application, and hang up."""
        if self._answered is None or self._answered.response_complete or not self._answered.response_started:
            body = json.dumps(error_body(kind, message)).encode()
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n{more}"
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self._hang_up()

    def _leave(self) -> None:
        """Tell whoever is at work on an answer that nobody waits for it; uvicorn tells only the last that came in."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def _hang_up(self) -> None:
        """Close, and do not wait for ever that the client takes what is left for it."""
        self._leave()
        self.transport.close()
        self.loop.call_later(self.budget.send_s, self.transport.abort)


def patient(budget: Budget) -> type[Patient]:
    """The class of connections with this budget."""
    return type("Patient", (Patient,), {"budget": budget})
