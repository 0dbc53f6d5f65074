// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
)

// Token is `leat token`.
func Token(s *session.Session) *cobra.Command {
	execCredential := false
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print an access token for the hub and its clusters",
		Long: `Exchange your API token for a short-lived access token, which all of the hub's services accept, and print it. It is cached
on disk, readable only by you, until shortly before it expires.

With --exec-credential it is printed in the form that kubectl expects of a credential plugin; kubeconfigs that leat kubeconfig
makes run leat like this.`,
		Example: `  curl -H "Authorization: Bearer $(leat token)" https://leat.example.com:8701/clusters/demo/version
  leat token --exec-credential`,
		Args: cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			return printToken(ctx, s, c, execCredential)
		}),
	}
	cmd.Flags().BoolVar(&execCredential, "exec-credential", false, "print an ExecCredential of client.authentication.k8s.io/v1")
	return cmd
}

func printToken(ctx context.Context, s *session.Session, c *client.Client, execCredential bool) error {
	token, err := s.AccessToken(ctx, c)
	if err != nil {
		return err
	}
	if execCredential {
		return json.NewEncoder(s.Out).Encode(credentialOf(token))
	}
	_, err = fmt.Fprintln(s.Out, token.Token)
	return err
}

// execCredential is the document that kubectl reads from a credential plugin.
type execCredential struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Status     execCredentialStatus `json:"status"`
}

type execCredentialStatus struct {
	ExpirationTimestamp string `json:"expirationTimestamp"`
	Token               string `json:"token"`
}

func credentialOf(token client.AccessToken) execCredential {
	return execCredential{
		APIVersion: execVersion,
		Kind:       "ExecCredential",
		Status:     execCredentialStatus{token.Expires.UTC().Format(time.RFC3339), token.Token},
	}
}
