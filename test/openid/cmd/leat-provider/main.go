// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-provider is an OpenID provider for tests of whole hubs. It prints its issuer, and
// serves on the loopback interface until it is ended.
//
//	leat-provider -hub URL -secret TEXT NAME[=GROUP,GROUP]…
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/leatdev/leat/test/openid"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "leat-provider: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var p openid.Params
	flags := flag.NewFlagSet("leat-provider", flag.ContinueOnError)
	flags.StringVar(&p.Hub, "hub", "", "the URL of the hub's pages")
	flags.StringVar(&p.Secret, "secret", "", "the secret of the hub at the provider")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p.People = map[string][]string{}
	for _, person := range flags.Args() {
		name, groups, _ := strings.Cut(person, "=")
		p.People[name] = strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.Issuer = "http://" + listener.Addr().String()
	server := &http.Server{Handler: openid.New(p), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintln(out, p.Issuer); err != nil {
		return fmt.Errorf("print the issuer: %w", err)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
