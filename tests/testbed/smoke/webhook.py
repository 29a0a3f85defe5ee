"""Mutating webhook of the smoke test: webhook.py ADDRESS PORT CERT KEY. The last part of the path becomes an annotation."""
import base64
import http.server
import json
import ssl
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        patch = [{"op": "add", "path": f"/metadata/annotations/{name}", "value": "yes"}]
        if not request["object"]["metadata"].get("annotations"):
            patch.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("listening", server.server_port, flush=True)
server.serve_forever()
