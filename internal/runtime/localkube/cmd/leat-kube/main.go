// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command leat-kube builds and runs Leat's local Kubernetes control plane. make uses it to build
// ahead of the tests, and people use it for a temporary cluster of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
)

const usage = `leat-kube builds and runs a local Kubernetes control plane.

  leat-kube build          build its components and print where they are
  leat-kube up [flags]     build if need be, run one, stop it on Ctrl-C

leat-kube COMMAND -h prints a command's flags.
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "leat-kube: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return errors.New("no command given")
	}
	switch args[0] {
	case "build":
		return build(ctx, args[1:], stdout, stderr)
	case "up":
		return up(ctx, args[1:], stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	default:
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("unknown command %q", args[0])
	}
}

// newFlags returns a flag set that has the build's flags.
func newFlags(name string, stderr io.Writer) (*flag.FlagSet, *localkube.BuildParams) {
	flags := flag.NewFlagSet("leat-kube "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	p := &localkube.BuildParams{Progress: func(line string) { fmt.Fprintln(stderr, line) }}
	flags.StringVar(&p.SourceDir, "source-dir", "", "the checkout's tools/kube (default: found from the working directory upwards)")
	flags.StringVar(&p.CacheDir, "cache-dir", "", "where binaries are kept (default: leat/kube in your cache folder)")
	flags.BoolVar(&p.Helm, "helm", false, "also build Helm, which tests of the tunnel and the renderer use")
	flags.BoolVar(&p.Kustomize, "kustomize", false, "also build kustomize, which tests of the renderer use")
	return flags, p
}

func build(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, params := newFlags("build", stderr)
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := localkube.Build(ctx, *params)
	if err != nil {
		return err
	}
	paths := []string{b.Etcd, b.APIServer, b.ControllerManager, b.Scheduler, b.Kubectl, b.Kwok}
	for _, requested := range []string{b.Helm, b.Kustomize} {
		if requested != "" {
			paths = append(paths, requested)
		}
	}
	for _, path := range paths {
		fmt.Fprintln(stdout, path)
	}
	return nil
}

func up(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags, buildParams := newFlags("up", stderr)
	var p localkube.Params
	flags.IntVar(&p.Nodes, "nodes", 1, "how many nodes the cluster has")
	flags.StringVar(&p.DataDir, "data-dir", "", "where its state is kept, so that a later run continues with it (default: a temporary directory, removed at the end)")
	flags.BoolVar(&p.APIServerOnly, "api-server-only", false, "run etcd and kube-apiserver alone")
	flags.BoolVar(&p.Audit, "audit", false, "record all requests in logs/audit.log of the data directory")
	binaries := flags.String("binaries", "", "a folder with the components, instead of building them")
	kubelet := flags.String("kubelet", "", "a file that says what exec, attach, logs and port-forward do to pods, in kwok's form (default: the API server refuses them)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubelet != "" {
		content, err := os.ReadFile(*kubelet)
		if err != nil {
			return fmt.Errorf("read what pods do: %w", err)
		}
		p.Kubelet = string(content)
	}
	if p.DataDir == "" {
		if p.DataDir, err = os.MkdirTemp("", "leat-kube-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.DataDir)) }()
	}
	if *binaries != "" {
		p.Binaries = localkube.InFolder(*binaries)
	} else if p.Binaries, err = localkube.Build(ctx, *buildParams); err != nil {
		return err
	}
	return hold(ctx, p, stdout, stderr)
}

// hold runs a control plane until ctx ends.
func hold(ctx context.Context, p localkube.Params, stdout, stderr io.Writer) error {
	begin := time.Now()
	cp, err := localkube.Start(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready after %s at %s, try:\n  %s --kubeconfig %s get nodes\n",
		time.Since(begin).Round(100*time.Millisecond), cp.Host(), p.Binaries.Kubectl, cp.KubeconfigPath())

	select {
	case <-ctx.Done():
		fmt.Fprintln(stderr, "stopping")
	case <-cp.Failed():
		err = cp.Err()
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, cp.Stop(stopCtx))
}
