// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-git serves the demo repository over HTTP, for reading and for pushing, with the
// installed git. It is the Git host of the profile demo of docker-compose.yml, and requires no
// password.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/cli/internal/up/demo"
	"github.com/leatdev/leat/cli/internal/up/localgit"
)

// drain is how long requests may take after a signal.
const drain = 5 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	dir := flag.String("dir", "", "folder of the repositories; demo.git is made if it is absent")
	hosts := flag.String("hosts", "", "names of the server besides those of the loopback interface, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *dir, strings.FieldsFunc(*hosts, func(r rune) bool { return r == ',' })); err != nil {
		fmt.Fprintln(os.Stderr, "leat-git:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, dir string, hosts []string) error {
	if dir == "" {
		return errors.New("--dir: got none, want a folder")
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	server, err := localgit.New(localgit.Params{
		Dir: dir, Hosts: hosts, Logger: logger,
		OnPush: func(ctx context.Context, name string) {
			logger.InfoContext(ctx, "pushed", slog.String("repository", name))
		},
	})
	if err != nil {
		return err
	}
	content, err := demo.Files()
	if err != nil {
		return err
	}
	if err := server.Ensure(ctx, "demo", content); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	logger.InfoContext(ctx, "serving", slog.String("address", listener.Addr().String()))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		return web.Shutdown(drained)
	})
	return group.Wait()
}
