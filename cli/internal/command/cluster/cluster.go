// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the commands that bring clusters into the fleet.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/agentmanifest"
	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/terminal"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// New is `leat cluster`.
func New(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Bring clusters into the fleet",
		Example: `  leat cluster create berlin --label stage=prod
  leat cluster token berlin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(create(s), token(s), revoke(s), release(s), bootstrap(s), publish(s))
	return cmd
}

func create(s *session.Session) *cobra.Command {
	labels := map[string]string{}
	description, endpoint := "", ""
	how := start{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Add a cluster and print how to start its agent",
		Long: `Add a cluster to the fleet and print a join token, and how to start the agent with it. The token enrols one agent, once,
within 24 hours; it is not shown again, but leat cluster token makes a new one at any time.

With -o kubernetes, print the manifest of the agent instead, with its token and the hub's address, for kubectl of that cluster. The agent
reaches the hub at the address that leat uses; --hub-url names another one. It trusts the certificates that leat trusts (--ca-file).
leat cluster token NAME -o kubernetes prints the manifest again, with another token.`,
		Example: `  leat cluster create berlin
  leat cluster create berlin -o kubernetes | kubectl --context berlin apply -f -
  leat cluster create berlin --label stage=prod --description "the old one"
  leat cluster create vault --agent-endpoint vault.example.com:8443`,
		Args: name,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			cluster := &fleetv1.Cluster{
				Metadata: &typev1.Metadata{Name: args[0], Labels: labels},
				Spec:     &fleetv1.ClusterSpec{Description: description, AgentEndpoint: endpoint},
			}
			s.Place(fleetdoc.Of(cluster))
			return add(ctx, s, c, cluster, how)
		}),
	}
	cmd.Flags().StringToStringVarP(&labels, "label", "l", nil, "KEY=VALUE; may be given more than once")
	cmd.Flags().StringVar(&description, "description", "", "a sentence for people")
	cmd.Flags().StringVar(&endpoint, "agent-endpoint", "", "HOST:PORT at which the hub dials the agent, for a cluster that may open no connections")
	how.flags(cmd)
	return cmd
}

func token(s *session.Session) *cobra.Command {
	how := start{}
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Print a new join token for a cluster's agent",
		Long: `Make a join token for the agent of a cluster that is in the fleet already, for example because the first one has
expired or the agent has lost its key. The token alone is printed on the standard output.

With -o kubernetes, print the manifest of the agent with the new token instead, as leat cluster create does.`,
		Example: `  leat cluster token berlin
  leat cluster token berlin > join-token
  leat cluster token berlin -o kubernetes | kubectl --context berlin apply -f -`,
		Args: name,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			if err := how.validate(); err != nil {
				return err
			}
			named := s.Reference("Cluster", args[0])
			if how.format == "text" {
				if how.hubURL != "" {
					return failure.Usage("--hub-url is for the manifest: print that with -o kubernetes")
				}
				return printToken(ctx, s, c, named)
			}
			found, err := fleetcalls.Get[*fleetv1.Cluster](ctx, c, named)
			if err != nil {
				return err
			}
			join, err := c.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: named})
			if err != nil {
				return err
			}
			return printManifest(s, c, found, join, how, "has a new token")
		}),
	}
	how.flags(cmd)
	return cmd
}

func revoke(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke the identity of a cluster's agent",
		Long: `Revoke the identity of a cluster's agent: its key and its unused join tokens become invalid, and it has to enrol again with a new
one. An agent that the hub dials, and that has lost its key, can enrol again only after this.`,
		Example: `  leat cluster revoke berlin`,
		Args:    name,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			named := s.Reference("Cluster", args[0])
			if _, err := c.RevokeCluster(ctx, &fleetv1.RevokeClusterRequest{Cluster: named}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.Out, "cluster/%s revoked\n", named)
			return err
		}),
	}
}

func release(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "release NAME",
		Short: "Allow deletions in a cluster again after a restore",
		Long: `Let the agent of a cluster delete objects again that leave its plan, after the hub was restored from a backup. Until then the agent keeps every
service, and every object of a service, that the restored hub does not know: it may have been made after the backup. The agent's log
names them. Put back what you need before you release the cluster, because the agent then removes the rest, within the guard.

A cluster whose removals are not held stays as it is. leat get cluster NAME shows whether they are.`,
		Example: `  leat cluster release berlin`,
		Args:    name,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			named := s.Reference("Cluster", args[0])
			if _, err := c.ReleaseCluster(ctx, &fleetv1.ReleaseClusterRequest{Cluster: named}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.Out, "cluster/%s released\n", named)
			return err
		}),
	}
}

func name(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("the cluster's NAME is missing")
	case 1:
		return nil
	default:
		return fmt.Errorf("want one NAME, got %d arguments", len(args))
	}
}

// start is how the agent of a new cluster is to be started.
type start struct {
	hubURL string // empty: the client's
	image  string // of the agent; empty: the release's
	format string // text or kubernetes
}

func (how *start) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&how.hubURL, "hub-url", "", "where the agent reaches the hub (default: where leat reaches it)")
	how.imageFlag(cmd)
	cmd.Flags().StringVarP(&how.format, "output", "o", "text", "text or kubernetes")
}

func (how *start) imageFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&how.image, "image", "", "the agent's image in the manifest, such as one of your registry (default: that of this release)")
}

func (how *start) validate() error {
	if how.format != "text" && how.format != "kubernetes" {
		return failure.Usage("there is no output form %q, want text or kubernetes", how.format)
	}
	return how.validateImage()
}

// validateImage returns a failure if an image is named for an output that has none.
func (how *start) validateImage() error {
	if how.image != "" && how.format != "kubernetes" {
		return failure.Usage("--image is for the manifest: print that with -o kubernetes")
	}
	return nil
}

func add(ctx context.Context, s *session.Session, c *client.Client, cluster *fleetv1.Cluster, how start) error {
	if err := how.validate(); err != nil {
		return err
	}
	name := document.Reference(cluster.GetMetadata())
	if _, err := fleetcalls.Create(ctx, c, cluster); err != nil {
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_ALREADY_EXISTS {
			return err
		}
		exists := failure.From(err, c.Server())
		exists.Advice = "To install its agent, run leat cluster token " + name + " -o kubernetes, which prints the manifest with another token."
		return exists
	}
	join, err := c.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: name})
	if err != nil {
		return err
	}
	if how.format == "kubernetes" {
		return printManifest(s, c, cluster, join, how, "created")
	}
	until := expiry(join)
	endpoint, hubURL := cluster.GetSpec().GetAgentEndpoint(), cmp.Or(how.hubURL, c.Server())
	if endpoint != "" {
		_, err = fmt.Fprintf(s.Out, instructionsDialled, name, endpoint, strings.Join(join.GetHubKeys(), ","), join.GetJoinToken(), until)
		return err
	}
	trust, err := trusted(s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, instructions, name, hubURL, join.GetJoinToken(), until, trust)
	return err
}

// printManifest prints the agent's manifest for a cluster, and reports what happened to the
// cluster.
func printManifest(s *session.Session, c *client.Client, cluster *fleetv1.Cluster, join *fleetv1.CreateJoinTokenResponse, how start, happened string) error {
	params := agentmanifest.Params{
		JoinToken: join.GetJoinToken(), HubURL: cmp.Or(how.hubURL, c.Server()), HubCA: c.CAPEM(), HubKeys: join.GetHubKeys(),
		Image: how.image, Release: app.Build().Release(),
	}
	if cluster.GetSpec().GetAgentEndpoint() != "" { // the agent makes no connection, and knows the hub by its keys
		params.HubURL, params.HubCA = "", nil
	}
	text, err := agentmanifest.Render(params)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(s.Out, text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Err, "cluster/%s %s; the token works once, until %s\n", document.Reference(cluster.GetMetadata()), happened, expiry(join))
	return err
}

// expiry returns when a join token ends, for people.
func expiry(join *fleetv1.CreateJoinTokenResponse) string {
	return join.GetExpireTime().AsTime().Local().Format(time.DateTime)
}

// trusted returns the line with the certificates that an agent has to trust, if leat was given
// some, because no public authority issued the hub's.
func trusted(s *session.Session) (string, error) {
	endpoint, err := s.Endpoint()
	if err != nil || endpoint.CAFile == "" {
		return "", err
	}
	file, err := filepath.Abs(endpoint.CAFile)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("  LEAT_AGENT_HUB_CA_FILE=%s \\\n", file), nil
}

const instructionsDialled = `cluster/%[1]s created

Start its agent where it reaches the cluster, and where the hub reaches it at %[2]s:

  LEAT_AGENT_LISTEN_TUNNEL_ADDR=:8443 \
  LEAT_AGENT_HUB_KEYS=%[3]s \
  LEAT_AGENT_JOIN_TOKEN=%[4]s \
  agent --agent-kubeconfig=FILE --agent-data-dir=DIR

The token works once, until %[5]s. In a pod of the cluster itself leave --agent-kubeconfig out.
`

const instructions = `cluster/%[1]s created

Start its agent where it reaches both the cluster and the hub:

  LEAT_AGENT_HUB_URL=%[2]s \
%[5]s  LEAT_AGENT_JOIN_TOKEN=%[3]s \
  agent --agent-kubeconfig=FILE --agent-data-dir=DIR

The token works once, until %[4]s. In a pod of the cluster itself leave --agent-kubeconfig out;
docs/operations/kubernetes.md installs it there by Helm, and -o kubernetes prints its manifest.
`

func printToken(ctx context.Context, s *session.Session, c *client.Client, cluster string) error {
	join, err := c.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(s.Out, join.GetJoinToken()); err != nil {
		return err
	}
	if terminal.IsTerminal(s.Out) {
		_, err = fmt.Fprintf(s.Err, "It works once, until %s.\n", expiry(join))
	}
	return err
}
