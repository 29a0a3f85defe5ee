# Container images without a container engine: a directory becomes an OCI image with umoci and goes to the
# registry with skopeo. The images of the test bed itself are made once and kept in the cache.
# shellcheck shell=bash

IMAGE_CACHE=$CACHE/images

# image_from_dir OCI_LAYOUT ROOTFS [umoci config argument...]
image_from_dir() {
  local layout=$1 rootfs=$2 defaults
  shift 2
  rm -rf "$layout"
  umoci init --layout "$layout"
  umoci new --image "$layout:1"
  # umoci insert keeps owners; the root folder itself is one entry of the layer.
  umoci insert --image "$layout:1" "$rootfs" / >/dev/null
  defaults=(--config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --os linux --architecture amd64 --created 2026-01-01T00:00:00Z)
  umoci config --image "$layout:1" "${defaults[@]}" "$@"
  umoci gc --layout "$layout" >/dev/null
}

push_image() { # oci-layout name:tag
  local log=$LOGS/images.log
  skopeo copy --quiet --dest-cert-dir "$PKI/registry-ca" --dest-creds "$REGISTRY_USER:$REGISTRY_PASSWORD" \
    "oci:$1:1" "docker://$HUB_IP:5000/$2" >>"$log" 2>&1 || { tail -3 "$log" >&2; die "cannot push $2, see $log"; }
}

rootfs_pause() { # folder
  mkdir -p "$1"
  gcc -O2 -static -s -o "$1/pause" "$BED_SOURCE/images/pause.c"
}

rootfs_busybox() { # folder
  local applet
  mkdir -p "$1"/{bin,tmp,etc,proc,sys,dev,root,mnt,var/tmp,usr/bin}
  chmod 1777 "$1/tmp" "$1/var/tmp"
  cp /bin/busybox "$1/bin/busybox"
  for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"; done
  ln -s /bin/env "$1/usr/bin/env"
  echo 'root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false' >"$1/etc/passwd"
  echo 'root:x:0:
nogroup:x:65534:' >"$1/etc/group"
}

# Debian's own Python, unpacked from its packages onto the busybox image: no network stack of a package manager,
# no maintainer scripts.
PYTHON_PACKAGES=(python3 python3-minimal python3.11 python3.11-minimal libpython3-stdlib libpython3.11-minimal libpython3.11-stdlib
  libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1 libdb5.3 libnsl2
  libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libkeyutils1 libcom-err2 libreadline8 libtinfo6 libncursesw6
  media-types ca-certificates)
rootfs_python() { # folder
  local packages=$1.packages deb
  mkdir -p "$packages" "$1"

  (cd "$packages" && apt-get -qq -o APT::Sandbox::User=root download "${PYTHON_PACKAGES[@]}")
  for deb in "$packages"/*.deb; do dpkg-deb -x "$deb" "$1"; done
  rm -rf "$packages" "$1"/usr/share/{doc,man,lintian,bug,locale,python3/debpython}
  rootfs_busybox "$1.busybox"
  # Debian merges /bin into /usr/bin: the applets go where no real program stands.
  mkdir -p "$1"/usr/{bin,sbin,lib,lib64}
  local folder
  for folder in bin sbin lib lib64; do
    if [ -d "$1/$folder" ] && [ ! -L "$1/$folder" ]; then cp -an "$1/$folder/." "$1/usr/$folder/"; rm -rf "${1:?}/$folder"; fi
    ln -sfn "usr/$folder" "$1/$folder"
  done
  cp -an "$1.busybox/bin/." "$1/usr/bin/"
  rm -rf "$1.busybox/bin" "$1.busybox/usr"
  cp -an "$1.busybox/." "$1/"
  rm -rf "$1.busybox"
  ln -sfn python3 "$1/usr/bin/python"
  ldconfig -r "$1"
}

# What an image is made of; other edits of this file do not make it anew.
image_key() { # name
  {
    declare -f image_from_dir image_config "rootfs_$1" rootfs_busybox
    [ "$1" != python ] || echo "${PYTHON_PACKAGES[*]}"
    [ "$1" != pause ] || cat "$BED_SOURCE/images/pause.c"
    dpkg-query -W -f '${Version}' busybox-static
  } | sha256sum | cut -c1-12
}

image_config() { # name; umoci config arguments, one a line
  case $1 in
    pause) printf '%s\n' --config.entrypoint /pause ;;
    busybox) printf '%s\n' --config.cmd /bin/sh ;;
    python) printf '%s\n' --config.cmd python3 --config.env PYTHONUNBUFFERED=1 --config.env LANG=C.UTF-8 ;;
  esac
}

bed_image() { # name; makes it unless the cache has it; prints its OCI layout
  local name=$1 layout work config
  layout=$IMAGE_CACHE/$name-$(image_key "$name")
  if [ ! -e "$layout/index.json" ]; then
    mkdir -p "$IMAGE_CACHE"
    (
      flock 6
      [ ! -e "$layout/index.json" ] || exit 0
      say "making image $name"
      work=$(mktemp -d "$IMAGE_CACHE/.$name.XXXXXX")
      # In an "if" or "||" bash would ignore failures inside; a plain subshell with set -e does not.
      "rootfs_$name" "$work/rootfs"
      mapfile -t config < <(image_config "$name")
      image_from_dir "$work/oci" "$work/rootfs" "${config[@]}"
      rm -rf "$IMAGE_CACHE/$name"-*
      mv "$work/oci" "$layout"
      rm -rf "$work"
    ) 6>"$IMAGE_CACHE/.lock" >&2
  fi
  echo "$layout"
}

push_bed_images() { # name...
  local name layout
  for name; do
    layout=$(bed_image "$name") || die "cannot make image $name"
    [ "$(cat "$STATE/pushed-$name" 2>/dev/null)" != "$layout" ] || continue
    push_image "$layout" "$name:1"
    echo "$layout" >"$STATE/pushed-$name"
  done
}

# Copies programs and the shared libraries they need into a folder, for an image of a fresh build.
add_binaries() { # rootfs file...
  local rootfs=$1 file library
  shift
  mkdir -p "$rootfs"/{usr/bin,usr/lib,usr/lib64,tmp,etc}
  chmod 1777 "$rootfs/tmp"
  for folder in bin lib lib64; do [ -e "$rootfs/$folder" ] || ln -s "usr/$folder" "$rootfs/$folder"; done
  for file; do
    install -m 755 "$file" "$rootfs/usr/bin/"
    # A static program has none.
    { ldd "$file" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
      [ -e "$rootfs$library" ] || install -D "$(readlink -f "$library")" "$rootfs$library"
    done
  done
  [ -e "$rootfs/etc/passwd" ] || echo 'root:x:0:0:root:/:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false' >"$rootfs/etc/passwd"
}

# image NAME[:TAG] [ROOTFS] [--base busybox|python] [--binary FILE]... [--entrypoint ARG]... [--cmd ARG]... [--env K=V]... [--user UID]
command_image() {
  local name="" rootfs="" base="" work binaries=() config=()
  while [ $# -gt 0 ]; do
    case $1 in
      --base) base=$2; shift ;;
      --binary) binaries+=("$2"); shift ;;
      --entrypoint | --cmd | --env) config+=("--config.${1#--}" "$2"); shift ;;
      --user) config+=(--config.user "$2"); shift ;;
      -*) die "image: unknown option $1" ;;
      *) if [ -z "$name" ]; then name=$1; else rootfs=$1; fi ;;
    esac
    shift
  done
  [ -n "$name" ] || die "image: which name?"
  [ -n "$rootfs${binaries[*]}" ] || die "image: give a folder, or programs with --binary"
  need_instance
  is_running registry || die "the registry is not up (scripts/testbed up registry)"
  [[ $name == *:* ]] || name=$name:1
  work=$(mktemp -d "$STATE/image.XXXXXX")
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf '$work'" EXIT
  mkdir "$work/rootfs"
  [ -z "$base" ] || { umoci unpack --image "$(bed_image "$base"):1" "$work/bundle" >/dev/null 2>&1; rm -r "$work/rootfs"; mv "$work/bundle/rootfs" "$work/rootfs"; }
  [ -z "$rootfs" ] || cp -a "$rootfs/." "$work/rootfs/"
  [ ${#binaries[@]} -eq 0 ] || add_binaries "$work/rootfs" "${binaries[@]}"
  image_from_dir "$work/oci" "$work/rootfs" "${config[@]}"
  push_image "$work/oci" "$name"
  echo "registry.test:5000/$name"
}
