// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/agentmanifest"
	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/lifetime"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/app"
)

func bootstrap(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Enrol many new clusters with one token",
		Long: `Manage bootstrap tokens. One such token enrols many clusters that the hub does not know yet, such as those that Cluster API or Terraform
make: it is given to each agent as its join token, and the hub makes the cluster when the agent comes.`,
		Example: `  leat cluster bootstrap create edge- --label stage=prod --uses 50 --expires 7d
  leat cluster bootstrap list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(createBootstrap(s), listBootstraps(s), revokeBootstrap(s))
	return cmd
}

// bootstrapForms are the forms in which a new token is printed.
var bootstrapForms = []string{"text", "json", "kubernetes", "helm"}

func createBootstrap(s *session.Session) *cobra.Command {
	labels := map[string]string{}
	request, life, how, file := &fleetv1.CreateBootstrapTokenRequest{}, lifetime.Span(0), start{}, ""
	cmd := &cobra.Command{
		Use:   "create PREFIX",
		Short: "Create a bootstrap token and print it",
		Long: `Create a token with which agents enrol clusters that the hub does not know yet. The names of these clusters begin with PREFIX; the agent
proposes the rest (LEAT_AGENT_CLUSTER), or the hub takes it from the uid of the namespace kube-system. They have the labels given here,
and no others. The token makes clusters only: it never takes over one that exists.

Only the token is printed on the standard output, and only once. With -o kubernetes, print the manifest of the agent with it, for every new
cluster; with -o helm, the values of the chart; with -o json, the token with what it may make.

Anybody who has the token receives what the hub gives to clusters with these labels, until its uses or its time end. You need the rights
to create clusters and join tokens in the project and, for labels, to be an administrator of all clusters.`,
		Example: `  leat cluster bootstrap create edge- --label stage=prod --uses 50 --expires 7d
  leat cluster bootstrap create edge- -o kubernetes > agent.yaml
  leat cluster bootstrap create edge- -o helm --file values.yaml`,
		Args: prefix,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			if err := how.validateImage(); err != nil {
				return err
			}
			switch {
			case !slices.Contains(bootstrapForms, how.format):
				return failure.Usage("there is no output form %q, want one of %s", how.format, strings.Join(bootstrapForms, ", "))
			case life < 0:
				return failure.Usage("--expires must be positive, such as 7d")
			case life > 0:
				request.ExpireTime = timestamppb.New(time.Now().Add(time.Duration(life)))
			}
			request.NamePrefix, request.Labels, request.Project = args[0], labels, s.Project()
			made, err := c.CreateBootstrapToken(ctx, request)
			if err != nil {
				return err
			}
			text, err := printed(made, agentmanifest.Params{
				JoinToken: made.GetSecret(), HubURL: cmp.Or(how.hubURL, c.Server()), HubCA: c.CAPEM(), Image: how.image, Release: app.Build().Release(),
			}, how.format)
			if err != nil {
				return err
			}
			token := made.GetToken()
			if _, err := fmt.Fprintf(s.Err, "bootstrap token %s created; it makes %d clusters %s… at most, until %s, and is not shown again\n",
				token.GetId(), token.GetMaxUses(), token.GetNamePrefix(), token.GetExpireTime().AsTime().Local().Format(time.DateTime)); err != nil {
				return err
			}
			if file != "" {
				if err := settings.WriteFile(file, []byte(text)); err != nil {
					return failure.File(err, "Nobody has the token: revoke it, and create another one.")
				}
				return nil
			}
			_, err = fmt.Fprint(s.Out, text)
			return err
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "write it to this file, readable for you only, instead of printing it")
	cmd.Flags().StringToStringVarP(&labels, "label", "l", nil, "KEY=VALUE, a label of each cluster; may be given more than once")
	cmd.Flags().Int32Var(&request.MaxUses, "uses", 0, "how many clusters it may make; 10000 at most (default: 100)")
	cmd.Flags().Var(&life, "expires", "how long it is valid, such as 12h or 30d; 90d at most (default: 24 hours)")
	cmd.Flags().StringVar(&request.Description, "description", "", "a sentence for people")
	cmd.Flags().StringVar(&how.hubURL, "hub-url", "", "where the agents reach the hub (default: where leat reaches it)")
	how.imageFlag(cmd)
	cmd.Flags().StringVarP(&how.format, "output", "o", "text", strings.Join(bootstrapForms, ", "))
	return cmd
}

// printed returns a new token in one of the forms.
func printed(made *fleetv1.CreateBootstrapTokenResponse, agent agentmanifest.Params, form string) (string, error) {
	switch form {
	case "kubernetes":
		return agentmanifest.Render(agent)
	case "helm":
		hub := map[string]any{"url": agent.HubURL}
		if len(agent.HubCA) > 0 {
			hub["ca"] = string(agent.HubCA)
		}
		text, err := yaml.Marshal(map[string]any{"hub": hub, "join": map[string]any{"token": agent.JoinToken}})
		return string(text), err
	case "json":
		var text strings.Builder
		err := document.WriteJSONItem(&text, made)
		return text.String(), err
	}
	return made.GetSecret() + "\n", nil
}

func listBootstraps(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show bootstrap tokens, how often each was used, and when it ends",
		Long: `Show the bootstrap tokens of all projects in which you may see them, without their secrets: how often each was used, the cluster that it
made last, who made it, and when it ends. Tokens that have ended stay for 30 days.`,
		Example: `  leat cluster bootstrap list`,
		Args:    cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			tokens, err := c.BootstrapTokens(ctx)
			if err != nil {
				return err
			}
			return show.BootstrapTokens(s.Out, format, s.Style(s.Out), time.Now(), tokens)
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func revokeBootstrap(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a bootstrap token",
		Long: `Revoke a bootstrap token at once. The clusters that were made with it stay, and their agents keep their identities: delete those that are not
yours (leat delete cluster/NAME). leat audit --token bootstrap.ID shows all that were made with it.`,
		Example: `  leat cluster bootstrap revoke 1f0c2a9b7d3e4c55`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want one ID, which leat cluster bootstrap list shows")
			}
			return nil
		},
		RunE: s.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := c.RevokeBootstrapToken(ctx, &fleetv1.RevokeBootstrapTokenRequest{Id: args[0]}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.Out, "bootstrap token %s revoked\n", args[0])
			return err
		}),
	}
}

func prefix(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("the PREFIX of the clusters' names is missing, such as edge-")
	case 1:
		return nil
	default:
		return fmt.Errorf("want one PREFIX, got %d arguments", len(args))
	}
}
