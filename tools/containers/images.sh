#!/bin/sh
# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# images.sh NAME...: makes images of other projects from programs of this machine, under the very names that the Dockerfile and docker-compose.yml use, so
# that these files are tested as they are shipped, without a registry. Names: golang nodejs debian redis postgres nginx k3s otelcol jaeger prometheus and,
# for a Kubernetes node, busybox pause coredns. An image is made again when something that it is made of changes.
set -eu
. "$(dirname "$0")/env.sh"
work=$(mktemp -d "$cache/image-XXXXXX")
trap 'rm -rf "$work"' EXIT

# image NAME SUM builds the folder $work/NAME, whose Dockerfile comes from standard input. SUM identifies what the image is made of.
image() {
	cat >"$work/Dockerfile"
	build --label "leat.inputs=$2" --tag "$1" --file "$work/Dockerfile" "$work"
}
isCurrent() { [ "$("$docker" image inspect --format '{{ index .Config.Labels "leat.inputs" }}' "$1" 2>/dev/null)" = "$2" ]; }
# named prints the image of a repository with the tag that docker-compose.yml gives it.
named() { sed -n "s|^ *image: \($1:.*\)\$|\1|p" "$top/docker-compose.yml"; }
sum() { (cat "$here/images.sh" "$here/root.sh" "$@") | sha256sum | cut -c1-16; }

# golang is the builder: Go, a shell, install, and the modules of the services and of the command line as a proxy of files.
golang() {
	name=golang:1.26-bookworm
	inputs=$({ go version && cat "$top"/services/*/go.sum "$top/cli/go.sum"; } | sum -)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" /usr/bin/install # which Debian's busybox lacks
	mkdir -p "$work/root/etc/ssl/certs" "$work/root/usr/local"
	cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"
	cp -a "$(go env GOROOT)" "$work/root/usr/local/go"
	(cd "$work/root/usr/local/go" && rm -rf test api doc misc)
	for module in "$top"/services/*/ "$top/cli/"; do
		GOMODCACHE=$cache/modules GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" GONOSUMDB='*' GOWORK=off GOFLAGS=-mod=mod \
			go -C "$module" mod download
	done
	cp -al "$cache/modules/cache/download" "$work/root/goproxy"
	rm -rf "$work/root/goproxy/sumdb"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		ENV GOTOOLCHAIN=local GOPATH=/go GOPROXY=file:///goproxy HOME=/root \
		    PATH=/go/bin:/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
		WORKDIR /go
	END
}

# nodejs is like node:26-bookworm-slim, with the packages of the web UI in the cache of its npm, which asks no registry.
nodejs() {
	name=node:26-bookworm-slim
	home=$(dirname "$("$top/tools/node.sh" pinned)")
	inputs=$(sum "$top/tools/node.sh" "$top/web/package-lock.json")
	isCurrent "$name" "$inputs" && return
	libraries=$(dirname "$(ldd "$home/bin/node" | sed -n 's|.*=> \(.*/libc\.so\.6\) .*|\1|p')")
	"$here/root.sh" "$work/root" "$home/bin/node" "$libraries/librt.so.1" # which native modules of packages need
	mkdir -p "$work/root/usr/local" "$work/packages"
	mv "$work/root$home/bin" "$work/root/usr/local/node"
	cp "$home/bin/npm" "$home/bin/npx" "$work/root/usr/local/node/"
	cp -a "$home/npm" "$work/root/usr/local/npm"
	cp "$top/web/package.json" "$top/web/package-lock.json" "$top/web/.npmrc" "$work/packages/"
	(cd "$work/packages" && PATH=$home/bin:$PATH npm ci --cache "$work/root/npm" --loglevel=error >/dev/null)
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		ENV PATH=/usr/local/node:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root npm_config_cache=/npm npm_config_offline=true
	END
}

# debian is like debian:bookworm-slim after the packages of the Dockerfile are installed. Its apt-get refuses others.
debian() {
	name=debian:bookworm-slim
	inputs=$(sum /usr/bin/git)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" /usr/bin/git /usr/lib/git-core/git-http-backend /usr/lib/git-core/git-remote-http /usr/share/git-core/templates
	ln -s git-remote-http "$work/root/usr/lib/git-core/git-remote-https"
	ln -s ../../bin/git "$work/root/usr/lib/git-core/git"
	mkdir -p "$work/root/etc/ssl/certs" "$work/root/var/lib/apt/lists"
	cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"
	cat >"$work/root/usr/bin/apt-get" <<-'END'
		#!/bin/sh
		case $* in
		update | "install --yes --no-install-recommends ca-certificates git") ;;
		*) echo "apt-get: this image of the tests cannot do: $*" >&2 && exit 1 ;;
		esac
	END
	chmod +x "$work/root/usr/bin/apt-get"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		CMD ["/bin/sh"]
	END
}

# redis is like redis:7.4-alpine: busybox, the user 999:1000, a volume at /data.
redis() {
	name=redis:7.4-alpine
	inputs=$(sum /usr/bin/redis-server /usr/bin/redis-cli)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" "$(readlink -f /usr/bin/redis-server)" /usr/bin/redis-cli
	[ -e "$work/root/usr/bin/redis-server" ] || ln "$work/root$(readlink -f /usr/bin/redis-server)" "$work/root/usr/bin/redis-server"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		RUN echo 'redis:x:999:1000:redis:/data:/bin/sh' >>/etc/passwd && echo 'redis:x:1000:' >>/etc/group && mkdir /data && chown 999:1000 /data
		VOLUME /data
		WORKDIR /data
		CMD ["redis-server"]
	END
}

# postgres is like postgres:17-alpine: the user 70:70, and a first start that makes the database.
postgres() {
	name=postgres:17-alpine
	programs=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 | sort -V | tail -1)
	inputs=$(sum "$here/postgres-start.sh" "$programs/bin/postgres")
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" "$programs/bin" "$programs/lib" "/usr/share/postgresql/$(basename "$programs")" /usr/share/zoneinfo
	rm -rf "$work/root$programs/lib/bitcode" "$work/root$programs"/lib/llvmjit*
	find "$work/root" -name 'libLLVM*' -delete
	mkdir -p "$work/root/usr/lib/locale"
	cp -a /usr/lib/locale/C.utf8 "$work/root/usr/lib/locale/"
	cp "$here/postgres-start.sh" "$work/root/usr/local/bin/docker-entrypoint.sh"
	image "$name" "$inputs" <<-END
		FROM scratch
		COPY root /
		RUN echo 'postgres:x:70:70:postgres:/var/lib/postgresql:/bin/sh' >>/etc/passwd && echo 'postgres:x:70:' >>/etc/group && \\
		    mkdir -p /var/lib/postgresql/data /run/postgresql && chown -R 70:70 /var/lib/postgresql /run/postgresql && \\
		    chmod 3777 /run/postgresql && chmod 1777 /var/lib/postgresql/data
		ENV PATH=$programs/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data
		VOLUME /var/lib/postgresql/data
		STOPSIGNAL SIGINT
		ENTRYPOINT ["docker-entrypoint.sh"]
		CMD ["postgres"]
	END
}

# nginx is like nginx:1.28-alpine: the user 101:101, and no folder that it may write to.
nginx() {
	name=nginx:1.28-alpine
	inputs=$(sum /usr/sbin/nginx)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" /usr/sbin/nginx
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		RUN echo 'nginx:x:101:101:nginx:/var/cache/nginx:/sbin/nologin' >>/etc/passwd && echo 'nginx:x:101:' >>/etc/group
		ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin
		EXPOSE 80
		STOPSIGNAL SIGQUIT
		CMD ["nginx", "-g", "daemon off;"]
	END
}

# k3s is like rancher/k3s: its entry point, its volumes, kubectl. The control plane is that of make kube, whose nodes are simulated.
k3s() {
	name=$(named rancher/k3s)
	mkdir -p "$work/root/opt/kubernetes/www"
	# A line for each file, in the order of their names below /opt/kubernetes.
	go -C "$top/internal" run ./runtime/localkube/cmd/leat-kube build >"$work/files"
	CGO_ENABLED=0 go -C "$top/internal" build -trimpath -buildvcs=false -ldflags=-s -o "$work/leat-kube" ./runtime/localkube/cmd/leat-kube
	inputs=$(cat "$work/files" "$work/leat-kube" "$here/k3s.sh" "$here/kubelet.yaml" | sum -)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root"
	while read -r file; do cp "$file" "$work/root/opt/kubernetes/"; done <"$work/files"
	mv "$work/root/opt/kubernetes/kubectl" "$work/leat-kube" "$work/root/bin/"
	cp "$here/k3s.sh" "$work/root/bin/k3s"
	cp "$here/kubelet.yaml" "$work/root/opt/kubernetes/"
	echo "2026-01-02T03:04:05Z stdout F the first line of the log" >"$work/root/opt/kubernetes/pod.log"
	echo "a page of a pod" >"$work/root/opt/kubernetes/www/index.html"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		ENV PATH=/bin:/bin/aux HOME=/root
		VOLUME /var/lib/kubelet
		VOLUME /var/lib/rancher/k3s
		VOLUME /var/lib/cni
		VOLUME /var/log
		ENTRYPOINT ["/bin/k3s"]
		CMD ["agent"]
	END
}

# otelcol is like otel/opentelemetry-collector: one program, and nothing that could ask for its health.
otelcol() {
	name=$(named otel/opentelemetry-collector)
	program=$("$here/programs.sh" otelcol)
	inputs=$(sum "$program")
	isCurrent "$name" "$inputs" && return
	mkdir -p "$work/root"
	cp "$program" "$work/root/otelcol"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		USER 10001:10001
		ENTRYPOINT ["/otelcol"]
		CMD ["--config", "/etc/otelcol/config.yaml"]
		EXPOSE 4317 4318
	END
}

# jaeger is like jaegertracing/jaeger: busybox, as Alpine has it, and a volume at /tmp.
jaeger() {
	name=$(named jaegertracing/jaeger)
	program=$("$here/programs.sh" jaeger)
	inputs=$(sum "$program")
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root"
	mkdir -p "$work/root/cmd/jaeger"
	cp "$program" "$work/root/cmd/jaeger/jaeger-linux"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin JAEGER_LISTEN_HOST=0.0.0.0
		EXPOSE 4317 4318 13133 16686
		VOLUME ["/tmp"]
		ENTRYPOINT ["/cmd/jaeger/jaeger-linux"]
		USER 10001
	END
}

# prometheus is like prom/prometheus: busybox, the user nobody, a volume at /prometheus. Its page is missing.
prometheus() {
	name=$(named prom/prometheus)
	program=$("$here/programs.sh" prometheus)
	inputs=$(sum "$program")
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root"
	mkdir -p "$work/root/prometheus" "$work/root/etc/prometheus"
	cp "$program" "$work/root/bin/prometheus"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		RUN chown nobody:nogroup /prometheus /etc/prometheus
		ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		USER nobody
		EXPOSE 9090
		VOLUME ["/prometheus"]
		WORKDIR /prometheus
		ENTRYPOINT ["/bin/prometheus"]
		CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
	END
}

# busybox is like busybox:1.37, which the charts run for helm test. Debian's has an nc that does not know -z, a wget that crashes with -T, and a shell that
# prefers both to what is in PATH.
busybox() {
	name=busybox:1.37
	inputs=$(sum "$here/node/wget.sh" /bin/busybox /bin/dash /usr/bin/curl /bin/nc.openbsd)
	isCurrent "$name" "$inputs" && return
	"$here/root.sh" "$work/root" /bin/dash /usr/bin/curl /bin/nc.openbsd
	ln -sfn dash "$work/root/bin/sh"
	ln -sfn nc.openbsd "$work/root/bin/nc"
	rm "$work/root/bin/wget"
	cp "$here/node/wget.sh" "$work/root/bin/wget"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		CMD ["sh"]
	END
}

# pause holds the namespaces of a pod. It is Kubernetes' own, compiled from the module that pins the kubelet.
pause() {
	name=leat.test/pause:1
	source=$(GOWORK=off go -C "$here/node/kubernetes" mod download -json k8s.io/kubernetes | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/build/pause/linux/pause.c
	inputs=$(sum "$source")
	isCurrent "$name" "$inputs" && return
	mkdir "$work/root"
	gcc -Os -static -s -DVERSION=1 -o "$work/root/pause" "$source"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		USER 65535:65535
		ENTRYPOINT ["/pause"]
	END
}

coredns() {
	name=leat.test/coredns:1
	program=$("$here/programs.sh" coredns)
	inputs=$(sum "$program")
	isCurrent "$name" "$inputs" && return
	mkdir "$work/root"
	cp "$program" "$work/root/coredns"
	image "$name" "$inputs" <<-'END'
		FROM scratch
		COPY root /
		USER 65532:65532
		ENTRYPOINT ["/coredns"]
	END
}

for name; do
	"$name"
	rm -rf "${work:?}/root"
done
