// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeconfig"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// execVersion is the protocol version between kubectl and leat.
const execVersion = kubeconfig.ExecVersion

// Kubeconfig is `leat kubeconfig`.
func Kubeconfig(s *session.Session) *cobra.Command {
	var k kubeconfigFlags
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER | --all",
		Short: "Print a kubeconfig that reaches clusters through the hub",
		Long: `Print a kubeconfig for kubectl and everything that reads such files. It reaches the cluster's Kubernetes API through the
hub's tunnel, as you: the cluster sees your name and your groups. It holds no secret; kubectl runs leat token for one,
with the hub and the context that are in use now.

With --all there is a context for each cluster that you can reach. With --merge the entries are added to an existing file;
its other content stays, including its current context.`,
		Example: `  leat kubeconfig berlin > berlin.kubeconfig
  kubectl --kubeconfig berlin.kubeconfig get pods -A
  kubectl --kubeconfig <(leat kubeconfig berlin) get nodes --watch
  leat kubeconfig --all --merge --file ~/.kube/config`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case k.all && len(args) > 0:
				return errors.New("--all excludes the name of a cluster")
			case !k.all && len(args) != 1:
				return errors.New("want the name of one cluster, or --all")
			case k.merge && k.file == "":
				return errors.New("--merge needs --file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.Fail(printKubeconfig(cmd.Context(), s, strings.Join(args, ""), k))
		},
	}
	cmd.Flags().StringVar(&k.file, "file", "", "write it to this file, readable for you only, instead of printing it")
	cmd.Flags().BoolVar(&k.all, "all", false, "all clusters that you can reach")
	cmd.Flags().BoolVar(&k.merge, "merge", false, "keep the content of --file, and add to it")
	return cmd
}

type kubeconfigFlags struct {
	file       string
	all, merge bool
}

// printKubeconfig prints a kubeconfig for one cluster, or for all if the name is empty.
func printKubeconfig(ctx context.Context, s *session.Session, cluster string, k kubeconfigFlags) error {
	content, current, err := makeKubeconfig(ctx, s, cluster)
	if err != nil {
		return err
	}
	if k.file == "" {
		_, err = s.Out.Write(content)
		return err
	}
	if k.merge {
		if content, err = mergeInto(k.file, content); err != nil {
			return err
		}
	}
	if err := settings.WriteFile(k.file, content); err != nil {
		return failure.File(err, "")
	}
	_, err = fmt.Fprintf(s.Out, "Try: kubectl --kubeconfig %s --context leat-%s get pods -A\n", k.file, current)
	return err
}

// mergeInto returns the file with the content merged into it. An absent file counts as empty.
func mergeInto(file string, content []byte) ([]byte, error) {
	existing, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failure.File(err, "")
	}
	merged, err := kubeconfig.Merge(existing, content)
	if err != nil {
		return nil, failure.New("cannot merge into "+file+": "+err.Error(), "Nothing was written. Give another --file, or leave --merge out.")
	}
	return merged, nil
}

// makeKubeconfig returns the kubeconfig and the cluster of its current context.
func makeKubeconfig(ctx context.Context, s *session.Session, cluster string) (content []byte, current string, err error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return nil, "", err
	}
	c, err := s.Connect(endpoint)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	p := kubeconfig.Params{CAPEM: c.CAPEM()}
	if p.Clusters, err = clustersOf(ctx, s, c, cluster); err != nil {
		return nil, "", err
	}
	if p.TunnelURL, err = s.TunnelURL(ctx, c); err != nil {
		return nil, "", err
	}
	if p.Command, err = os.Executable(); err != nil {
		return nil, "", fmt.Errorf("find leat itself: %w", err)
	}
	if p.Args, err = tokenArgs(s, endpoint); err != nil {
		return nil, "", err
	}
	content, err = kubeconfig.Make(p)
	return content, p.Clusters[0], err
}

// clustersOf returns the named cluster if it exists, or all clusters that the caller can reach, as URLs
// name them.
func clustersOf(ctx context.Context, s *session.Session, c *client.Client, named string) ([]string, error) {
	if named != "" {
		_, err := fleetcalls.Get[*fleetv1.Cluster](ctx, c, s.Reference("Cluster", named))
		if err != nil {
			return nil, err
		}
		path, err := s.ClusterPath(named)
		return []string{path}, err
	}
	objects, err := c.All(ctx, "Cluster", "")
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, failure.New("you can reach no cluster", "An administrator makes a binding with leat create accessbinding.")
	}
	var names []string
	for _, object := range objects {
		metadata := document.Metadata(object)
		names = append(names, objectname.Join(metadata.GetProject(), metadata.GetName()))
	}
	return names, nil
}

// tokenArgs returns the arguments with which leat finds the same hub and the same token when
// kubectl runs it, in any directory. A token from the environment stays there.
func tokenArgs(s *session.Session, endpoint session.Endpoint) ([]string, error) {
	args := []string{"token", "--exec-credential"}
	config, err := s.ConfigPath()
	if err != nil {
		return nil, err
	}
	args = append(args, "--config", config)
	if endpoint.Context != "" {
		args = append(args, "--context", endpoint.Context)
	} else {
		args = append(args, "--server", endpoint.Server)
	}
	if endpoint.TokenFile != "" {
		args = append(args, "--token-file", endpoint.TokenFile)
	}
	if endpoint.CAFile != "" && endpoint.Context == "" {
		path, err := filepath.Abs(endpoint.CAFile)
		if err != nil {
			return nil, fmt.Errorf("find CA file: %w", err)
		}
		args = append(args, "--ca-file", path)
	}
	return args, nil
}
