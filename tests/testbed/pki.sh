# Certificates and kubeconfigs of an instance: one CA, EC keys, one year. Every function is safe to repeat.
# shellcheck shell=bash

pki_ca() {
  mkdir -p "$PKI"
  chmod 700 "$PKI"
  [ -e "$PKI/ca.crt" ] || {
    openssl ecparam -genkey -name prime256v1 -noout -out "$PKI/ca.key"
    openssl req -x509 -new -key "$PKI/ca.key" -subj "/CN=paceline-testbed-$BED_NAME" -days 365 -out "$PKI/ca.crt" \
      -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
    openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
    openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
  }
}

pki_cert() { # name subject [subjectAltName]
  [ ! -e "$PKI/$1.crt" ] || return 0
  local base=$PKI/$1
  openssl ecparam -genkey -name prime256v1 -noout -out "$base.key"
  {
    echo keyUsage=digitalSignature
    echo extendedKeyUsage=serverAuth,clientAuth
    [ -z "${3:-}" ] || echo "subjectAltName=$3"
  } >"$base.ext"
  # Nodes are added in parallel: a random serial needs no shared counter file.
  openssl req -new -key "$base.key" -subj "$2" | openssl x509 -req -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" \
    -set_serial "0x$(openssl rand -hex 8)" -days 365 -extfile "$base.ext" -out "$base.crt.part" 2>/dev/null
  mv "$base.crt.part" "$base.crt"
  rm -f "$base.ext"
}

pki_kubeconfig() { # name; holds its certificates, so that a copy works anywhere
  cat >"$PKI/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: testbed
  cluster: {server: "https://$HUB_IP:6443", certificate-authority-data: $(base64 -w0 <"$PKI/ca.crt")}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 <"$PKI/$1.crt"), client-key-data: $(base64 -w0 <"$PKI/$1.key")}
contexts:
- name: testbed
  context: {cluster: testbed, user: $1}
current-context: testbed
YAML
}

pki_control_plane() {
  pki_cert apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$HUB_IP,IP:$SERVICE_IP"
  pki_cert apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
  pki_cert front-proxy-client /CN=front-proxy-client
  pki_cert admin /O=system:masters/CN=admin
  pki_cert controller-manager /CN=system:kube-controller-manager
  pki_cert scheduler /CN=system:kube-scheduler
  pki_cert kube-proxy /CN=system:kube-proxy
  local name
  for name in admin controller-manager scheduler kube-proxy; do pki_kubeconfig "$name"; done
}

pki_node() { # node
  pki_cert "node-$1" "/O=system:nodes/CN=system:node:$1" "IP:$(node_ip "$1"),DNS:$1"
  pki_kubeconfig "node-$1"
}
