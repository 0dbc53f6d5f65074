// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leatdev/leat/cli/internal/command/access"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/terminal"
	upcmd "github.com/leatdev/leat/cli/internal/up"
	"github.com/leatdev/leat/cli/internal/up/report"
)

const upText = `Run a whole hub on this machine: its three services, a Kubernetes cluster with an agent, and a repository that is
delivered to it. Everything is real except Redis and the database, which are embedded, and the cluster's nodes, which
pretend to run pods: they are Ready and use next to nothing, and load balancers get addresses at which nothing answers.

Without flags it delivers a demo from a Git repository that it serves itself, and that you can clone and push to. With
--repo it delivers your own repository.

The first start needs a Kubernetes control plane: etcd 3.6 or 3.7, kube-apiserver, kube-controller-manager and
kube-scheduler 1.36, kwok 0.8, and kubectl. Each file comes from the first of these that has it: the folder that
--kubernetes-binaries names, an earlier start, the PATH, upstream's releases, whose checksums leat has, and a build
from source, which takes some minutes and needs Go. There is no such release of kwok, so without Go you install it. leat up
prints which way it takes, and why not an earlier one. It delivers as soon as etcd and kube-apiserver run, and makes
the nodes Ready when the other files are there. Later starts take seconds.

With --kind the clusters run in containers, so that pods really run: it needs the program kind and Docker. leat up makes a
cluster at its start and deletes it at its end; the next start makes another one and delivers to it again.

With --kubeconfig it uses your own cluster instead. There it makes three ClusterRoleBindings, so that people who connect
through the tunnel have rights: leat-admins (cluster-admin), leat-operators (edit) and leat-viewers (view).

It prints the address of the web UI, which signs one browser in, once, within a minute, and opens it if you would see it. leat ui
prints another one.

Everything is kept in --data-dir, which Git ignores. Ctrl-C stops everything, a second Ctrl-C kills it; the next start
continues from there. To start over, remove the folder. Your own leat config does not change: the hub has a config file of
its own in the folder, which LEAT_CONFIG names.

The exit code is 0 if Ctrl-C or SIGTERM stopped it, and 1 if a part of it failed.`

func up(s *session.Session) *cobra.Command {
	o, output := upcmd.Options{}, outputText
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Try Leat: a hub, a cluster and a demo on this machine",
		Long:  upText,
		Example: `  leat up
  leat up --repo https://github.com/stefanprodan/podinfo --path kustomize --namespace podinfo
  leat up --clusters 3
  leat up --kind
  leat up --kubeconfig ~/.kube/kind-config
  leat up --output json --listen 127.0.0.1:0 | jq 'select(.event == "ready").summary'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(runUp(cmd.Context(), s, o, output)) },
	}
	bindUp(cmd.Flags(), &o)
	cmd.Flags().Var(&output, "output", "text, or json: one event a line, for scripts")
	return cmd
}

func bindUp(flags *pflag.FlagSet, o *upcmd.Options) {
	flags.StringVar(&o.RepoURL, "repo", "", "URL of the repository to deliver (default: a demo)")
	flags.StringVar(&o.Ref, "ref", "", "branch, tag:NAME, refs/… or commit id (default: the repository's default branch)")
	flags.StringVar(&o.Path, "path", "", "folder of the manifests in the repository (default: its root)")
	flags.StringVar(&o.Root, "root", "", "folder that holds --path and what its manifests refer to, such as ../base; . is the whole repository")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace for objects that name none (default: default)")
	flags.IntVar(&o.Clusters, "clusters", 1, "how many clusters to run: demo, demo-2, demo-3 …")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of your own cluster to use instead, with its current context")
	flags.StringVar(&o.KubeSource, "kube-source", "", "a folder in a checkout of Leat, to build the control plane that it pins (default: this folder, if it is in one)")
	flags.BoolVar(&o.Kind, "kind", false, "run the clusters in containers, with kind and Docker, in place of simulated nodes")
	flags.StringVar(&o.Binaries, "kubernetes-binaries", "", "folder with binaries of a control plane, under the names above; not all have to be there")
	flags.StringVar(&o.Mirror, "kubernetes-mirror", "", "base URL of a server with upstream's releases, at URL/HOST/PATH; off: download nothing (default: upstream)")
	flags.StringVar(&o.Listen, "listen", upcmd.DefaultListen, "host and port of the hub; the next three ports are also used; port 0: any four")
	flags.StringVar(&o.DataDir, "data-dir", upcmd.DefaultDataDir, "where everything is kept")
	flags.DurationVar(&o.WaitTimeout, "wait-timeout", 10*time.Minute, "how long to wait for the first delivery before showing the summary")
	flags.BoolVar(&o.Verbose, "verbose", false, "write the services' logs to the standard error as well as to files")
}

func runUp(ctx context.Context, s *session.Session, o upcmd.Options, output outputFormat) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find leat itself: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	reporter := report.Text(s.Out, s.Style(s.Out))
	if output == outputJSON {
		reporter = report.JSON(s.Out)
	} else if terminal.IsTerminal(s.Out) && access.HasDisplay(s.LookupEnv) {
		reporter = opening(ctx, s, reporter)
	}
	err = upcmd.Run(ctx, upcmd.Params{
		Options: o, Report: reporter, Command: executable, LookupEnv: s.LookupEnv, LookPath: exec.LookPath, LogOutput: s.Err,
	})
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure.Failure](err); ok {
		return f
	}
	return failure.From(err, "the hub")
}

// opening returns a reporter that also opens the web UI.
func opening(ctx context.Context, s *session.Session, next report.Reporter) report.Reporter {
	return func(e report.Event) {
		next(e)
		if e.Kind == report.Ready && e.Summary.UI != "" {
			access.OpenBrowser(ctx, s.LookupEnv, e.Summary.UI)
		}
	}
}

// outputFormat is the form in which leat up reports its progress.
type outputFormat string

const (
	outputText outputFormat = "text"
	outputJSON outputFormat = "json"
)

// String implements pflag.Value.
func (f *outputFormat) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *outputFormat) Set(text string) error {
	switch outputFormat(text) {
	case outputText, outputJSON:
		*f = outputFormat(text)
		return nil
	default:
		return errors.New("want text or json")
	}
}

// Type implements pflag.Value.
func (f *outputFormat) Type() string { return "text|json" }
