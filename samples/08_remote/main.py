"""A remote store of kernels in Python, over Redis or over HTTP: a machine compiles a kernel, the next one finds it there.

    python main.py [--redis HOST:PORT | --redis SOCKET | --http URL] [--keys FILE --sign-key FILE] [--time-limit SECONDS]
    python main.py --serve PORT

Without a server's address it starts one over HTTP in the process. Two runtimes with empty caches stand for two machines. The first compiles attention for
the CPU model and puts it into the store, unless it is there; the second takes it from there. With --keys and --sign-key (tj-warm --make-key) values are
signed, and nothing else is believed; without them whoever can write the store is trusted. --serve runs the HTTP server alone. Exits 0 when the second
runtime compiled nothing, 1 when not.

The classes are small on purpose: a connection for each question, so any thread may ask. Put names of your own before the library's, or give it a server
of its own: it never deletes a value. Redis does, with maxmemory-policy allkeys-lru.
"""
import argparse
import http.client
import http.server
import re
import socket
import sys
import tempfile
import threading
import urllib.parse

import tilejit

PREFIX = "tilejit:"
MAX_BYTES = 65 << 20
NAME = re.compile(r"/[0-9A-Za-z.-]{1,160}")


class RedisStore:
    """GET, SET and EXISTS of Redis, over TCP ("host:port") or a socket's path."""

    def __init__(self, address, seconds):
        self.address, self.seconds = address, seconds

    def connect(self):
        if "/" in self.address:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(self.seconds)
            connection.connect(self.address)
            return connection
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host or "localhost", int(port)), self.seconds)

    def ask(self, *words):
        parts = [word if isinstance(word, bytes) else word.encode() for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with self.connect() as connection, connection.makefile("rb") as reader:
            connection.sendall(request)
            line = reader.readline(4096)
            kind, rest = line[:1], line[1:].strip()
            if not line.endswith(b"\r\n") or kind not in b"+:$":
                raise OSError(f"Redis says {line!r}")
            if kind != b"$":
                return rest
            length = int(rest)
            if length < 0:
                return None
            if length > MAX_BYTES:
                raise OSError(f"a value of {length} bytes")
            value = reader.read(length)
            if len(value) != length:
                raise OSError("the connection ended within a value")
            return value

    def get(self, name):
        return self.ask("GET", PREFIX + name)

    def put(self, name, value):
        if self.ask("SET", PREFIX + name, value) != b"OK":
            raise OSError("Redis did not keep the value")

    def has(self, name):
        return self.ask("EXISTS", PREFIX + name) == b"1"


class HttpStore:
    """GET, PUT and HEAD of a server such as Server below, an object store behind a proxy, or WebDAV."""

    def __init__(self, url, seconds):
        self.url, self.seconds = urllib.parse.urlsplit(url), seconds
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise ValueError(f"--http is {url!r}; allowed: http://host:port/folder, or https")

    def ask(self, method, name, body=None):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.url.hostname, self.url.port, timeout=self.seconds)
        try:
            connection.request(method, self.url.path.rstrip("/") + "/" + name, body)
            response = connection.getresponse()
            value = response.read(MAX_BYTES + 1)
            if response.status not in (200, 201, 204, 404) or len(value) > MAX_BYTES:
                raise OSError(f"{method} gave {response.status} and {len(value)} bytes")
            return None if response.status == 404 else value
        finally:
            connection.close()

    def get(self, name):
        return self.ask("GET", name)

    def put(self, name, value):
        if self.ask("PUT", name, value) is None:
            raise OSError("the server did not keep the value")

    def has(self, name):
        return self.ask("HEAD", name) is not None


class Server(http.server.BaseHTTPRequestHandler):
    """A store in memory, for a trial: names as the library writes them, values of bounded size, no way to log in."""

    values = {}
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        value = self.values.get(self.path)
        self.answer(404) if value is None else self.answer(200, value)

    do_HEAD = do_GET

    def do_PUT(self):
        length = self.headers.get("Content-Length", "")
        if not NAME.fullmatch(self.path) or not length.isdigit() or int(length) > MAX_BYTES:
            self.close_connection = True
            return self.answer(400)
        value = self.rfile.read(int(length))
        if len(value) == int(length):
            self.values[self.path] = value
            self.answer(201)

    def log_message(self, *_):
        pass


def serve(port):
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Server)


def prepared(store, arguments):
    """What one machine does, with a cache of its own that is empty."""
    remote = tilejit.Remote(store.get, store.put, store.has, time_limit_s=arguments.time_limit, trusted=not arguments.keys, sign_key=arguments.sign_key)
    with tempfile.TemporaryDirectory() as folder:
        with tilejit.Runtime(cache_dir=folder, target="model:sm_90a", remote=remote, pack_keys=arguments.keys) as runtime:
            queries = tilejit.Spec((1, 2, 256, 64), "f16", "cpu")
            report = runtime.prepare("fmha", queries, queries, queries, causal=True)
            counted = runtime.counters()
    print(f"{report.name}: {counted['remote_hits']} from the store, {counted['compiles']} compiled, {counted['remote_puts']} put, "
          f"{counted['remote_failures']} failures, {counted['remote_rejected']} values refused")
    return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--redis", help="host:port, or the path of a socket")
    where.add_argument("--http", help="http://host:port/folder")
    where.add_argument("--serve", type=int, metavar="PORT", help="run the HTTP server, and nothing else")
    parser.add_argument("--keys", help="a file of public keys")
    parser.add_argument("--sign-key", help="a file of a secret key")
    parser.add_argument("--time-limit", type=float, default=2.0, help="seconds for one question")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve).serve_forever()
    server = None
    if arguments.redis:
        store = RedisStore(arguments.redis, arguments.time_limit)
    elif arguments.http:
        store = HttpStore(arguments.http, arguments.time_limit)
    else:
        server = serve(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store = HttpStore(f"http://127.0.0.1:{server.server_port}", arguments.time_limit)
    prepared(store, arguments)
    second = prepared(store, arguments)
    if server is not None:
        server.shutdown()
    return 0 if second["compiles"] == 0 and second["remote_hits"] > 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (tilejit.Error, ValueError, OSError) as error:
        sys.exit(f"08_remote: {error}")
