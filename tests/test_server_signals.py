"""Signals to `lookalike serve`: running requests are answered, event streams end, and the exit code is 0."""

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from serving import copy_shelf
from waiting import TIMEOUT_S


@contextmanager
def serving(collection):
    """Run a service in a separate process; yield the process and its port."""
    command = [sys.executable, "-m", "lookalike", "-c", str(collection), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(process.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])
        finally:
            process.kill()


def send(port, head):
    """Send a request head on a new connection."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    connection.sendall(f"{head}\r\nHost: localhost\r\nX-Lookalike: 1\r\n".encode() + b"\r\n")
    return connection


def read_all(connection):
    """Return all bytes until the service closes the connection."""
    answer = b""
    while part := connection.recv(2**16):
        answer += part
    return answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_service_and_its_event_streams(shelf, tmp_path, number):
    with serving(copy_shelf(shelf, tmp_path)) as (process, port):
        with send(port, "GET /api/v1/events HTTP/1.1") as stream:
            assert b" 200 " in stream.recv(1000)
            process.send_signal(number)
            read_all(stream)
        assert process.wait(TIMEOUT_S) == 0
        log = process.stderr.read()
        assert "Stopped." in log
        assert "Traceback" not in log


def test_a_second_ctrl_c_does_not_wait_for_running_requests(shelf, tmp_path):
    with serving(copy_shelf(shelf, tmp_path)) as (process, port):
        waiting = "POST /api/v1/search HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9"
        with send(port, waiting) as unanswered, send(port, "GET /healthz HTTP/1.1") as healthy:
            assert b" 200 " in healthy.recv(1000)
            process.send_signal(signal.SIGINT)
            read_all(healthy)  # an idle connection is closed when the shutdown starts
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0
            assert b" 503 " in read_all(unanswered)  # after ten seconds, it would have been a 408
            assert "Traceback" not in process.stderr.read()
