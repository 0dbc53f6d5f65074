// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package adoption holds the commands that make services of what other tools have deployed.
package adoption

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/helmrelease"
	"github.com/leatdev/leat/cli/internal/kubeclient"
	"github.com/leatdev/leat/cli/internal/session"
)

// timeout bounds one import: a few requests, and a render.
const timeout = 5 * time.Minute

// Import is `leat import`.
func Import(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import existing deployments as services",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(argoCD(s), flux(s), helm(s))
	return cmd
}

// reach selects how to reach the cluster: with a kubeconfig, or through the hub.
type reach struct {
	session                 *session.Session
	kubeconfig, kubeContext string
}

func (r *reach) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.kubeconfig, "kubeconfig", "", "reach the cluster with this kubeconfig instead of through the hub")
	cmd.Flags().StringVar(&r.kubeContext, "kube-context", "", "reach the cluster with this context of your kubeconfig instead of through the hub")
}

// isDirect reports whether the cluster is reached without the hub.
func (r *reach) isDirect() bool { return r.kubeconfig != "" || r.kubeContext != "" }

// connect returns the store of releases in a cluster, and the namespace to look in by default.
func (r *reach) connect(ctx context.Context, cluster string) (*helmrelease.Store, string, error) {
	config, namespace, err := r.config(ctx, cluster)
	if err != nil {
		return nil, "", err
	}
	store, err := helmrelease.NewStore(config)
	return store, namespace, err
}

func (r *reach) config(ctx context.Context, cluster string) (config *rest.Config, namespace string, err error) {
	if !r.isDirect() {
		config, err = r.session.Kubernetes(ctx, cluster)
		return config, "default", err
	}
	return kubeclient.Load(r.kubeconfig, r.kubeContext)
}

// explained returns the failure for an error about a release.
func explained(err error, release, namespace string) error {
	if undecided, ok := errors.AsType[*helmrelease.UndecidedError](err); ok {
		return failure.New(undecided.Error(), "Nothing was written. Say for each of them --secret PATH, which makes it a secret of the service's "+
			"configuration, or --plain PATH, which leaves it among the values. A path of * stands for all of them.")
	}
	if missing, ok := errors.AsType[*helmrelease.DependenciesError](err); ok {
		return failure.New(missing.Error(), "Fetch the chart with them (helm pull CHART --version VERSION --untar), and name its folder with --chart. "+
			"--no-compare writes the document without a comparison.")
	}
	if path, ok := errors.AsType[*helmrelease.PathError](err); ok {
		return failure.Usage("%v; helm get values %s -n %s shows them", path, release, namespace)
	}
	return err
}
