// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/leatdev/leat/cli/internal/failure"
)

// extraPorts is how many ports after the front's are used.
const extraPorts = 3

// listeners are the ports of a hub. They are opened before anything is started: an occupied port is
// the most common reason why a hub cannot start, and the cheapest one to find.
type listeners struct {
	front, tunnel, gitcache, git net.Listener
	// distributor is on the loopback interface, and reached through the front.
	distributor net.Listener
}

// listen opens the front's port and the following ones. Port 0 makes the kernel choose all of them.
// The git server is always on the loopback interface, because it requires no password.
func listen(ctx context.Context, address string) (*listeners, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	var l listeners
	for i, want := range []struct {
		part, host string
		listener   *net.Listener
	}{
		{"the hub", host, &l.front},
		{"the tunnel", host, &l.tunnel},
		{"the git cache", host, &l.gitcache},
		{"the demo repository", "127.0.0.1", &l.git},
	} {
		number := first
		if first != 0 {
			number += i
		}
		if *want.listener, err = listenOn(ctx, want.part, net.JoinHostPort(want.host, strconv.Itoa(number))); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if l.distributor, err = listenOn(ctx, "the distributor", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &l, nil
}

func listenOn(ctx context.Context, part, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, failure.New(fmt.Sprintf("cannot listen on %s for %s: %v", address, part, cause(err)),
			"Stop what uses that port, or choose others: --listen 127.0.0.1:9700 takes 9700 to 9703, port 0 any four.")
	}
	return listener, nil
}

func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Close closes the ports that no server has taken over.
func (l *listeners) Close() error {
	var errs []error
	for _, listener := range []net.Listener{l.front, l.tunnel, l.gitcache, l.git, l.distributor} {
		if listener == nil {
			continue
		}
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// urlOf returns the URL of a listener on this machine.
func urlOf(scheme string, listener net.Listener) string {
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return scheme + "://" + listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
