// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/durable"
)

// startAPIServer runs kube-apiserver and returns when it is ready. Another process may take the
// chosen port before kube-apiserver does, so it tries more than once.
func (cp *ControlPlane) startAPIServer(ctx context.Context, p Params, keys pki) error {
	const attempts = 4
	for attempt := 1; ; attempt++ {
		port, err := cp.choosePort(ctx, attempt == 1)
		if err != nil {
			return err
		}
		err = cp.tryAPIServer(ctx, p, keys, port)
		if err == nil || attempt == attempts || !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

var errPortTaken = errors.New("the port was taken")

func (cp *ControlPlane) tryAPIServer(ctx context.Context, p Params, keys pki, port int) error {
	if err := cp.connect(p, keys, port); err != nil {
		return err
	}
	c, err := cp.apiServer(p, keys, port)
	if err != nil {
		return err
	}
	server, err := cp.run(c)
	if err != nil {
		return err
	}
	err = cp.waitFor(ctx, "kube-apiserver to be ready", cp.client.ready)
	if err != nil && server.ended() && strings.Contains(server.logTail(), "address already in use") {
		cp.processes = slices.DeleteFunc(cp.processes, func(p *process) bool { return p == server })
		return errPortTaken
	}
	return err
}

// connect prepares everything that depends on the port.
func (cp *ControlPlane) connect(p Params, keys pki, port int) error {
	name := p.Name
	if name == "" {
		name = "leat-local"
	}
	cp.host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var err error
	if cp.client, err = newClient(cp.host, keys); err != nil {
		return err
	}
	if cp.kubeconfig, err = keys.kubeconfig(name, cp.host); err != nil {
		return err
	}
	if err := durable.WriteFile(cp.KubeconfigPath(), "kubeconfig.new-*", cp.kubeconfig); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := durable.WriteFile(cp.path("port"), "port.new-*", []byte(strconv.Itoa(port))); err != nil {
		return fmt.Errorf("write port: %w", err)
	}
	return nil
}

// choosePort returns the port of the last start if one was kept and it is free, and otherwise one
// that the kernel chooses.
func (cp *ControlPlane) choosePort(ctx context.Context, wantOld bool) (int, error) {
	old, err := os.ReadFile(cp.path("port"))
	if errors.Is(err, fs.ErrNotExist) || !wantOld {
		return freePort(ctx, 0)
	}
	if err != nil {
		return 0, fmt.Errorf("read port: %w", err)
	}
	port, err := strconv.Atoi(string(old))
	if err != nil {
		return 0, fmt.Errorf("read port: %w", err)
	}
	// An API server whose parent was killed a moment ago may still be running.
	for range 20 {
		if got, err := freePort(ctx, port); err == nil {
			return got, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return freePort(ctx, 0)
}

// The ports from first up to ephemeral, where Linux begins to choose automatically. A port that the
// kernel chose might go to any outgoing connection before the component listens on it.
const (
	first     = 10240
	ephemeral = 32768
)

// freePort returns want if it is free, or any free port if want is 0.
func freePort(ctx context.Context, want int) (port int, err error) {
	const tries = 100
	for range tries {
		port = cmp.Or(want, first+rand.IntN(ephemeral-first))
		var listener net.Listener
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		if want != 0 {
			break
		}
	}
	return 0, fmt.Errorf("find free port: %w", err)
}
