// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// startAPIServer runs kube-apiserver and returns when it is ready. Another process may take the
// chosen port before kube-apiserver does, so it tries more than once.
func (cp *ControlPlane) startAPIServer(ctx context.Context, p Params, files keys.Dir) error {
	const attempts = 4
	for attempt := 1; ; attempt++ {
		port, err := cp.choosePort(ctx, attempt == 1)
		if err != nil {
			return err
		}
		err = cp.tryAPIServer(ctx, p, files, port)
		if err == nil || attempt == attempts || !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

var errPortTaken = errors.New("the port was taken")

func (cp *ControlPlane) tryAPIServer(ctx context.Context, p Params, files keys.Dir, port int) error {
	if err := cp.connect(p, files, port); err != nil {
		return err
	}
	c, err := cp.apiServer(p, files, port)
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
func (cp *ControlPlane) connect(p Params, files keys.Dir, port int) error {
	name := p.Name
	if name == "" {
		name = "leat-local"
	}
	cp.host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var err error
	if cp.client, err = newClient(cp.host, files); err != nil {
		return err
	}
	if cp.kubeconfig, err = files.Kubeconfig(name, cp.host); err != nil {
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
