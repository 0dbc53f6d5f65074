// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub holds the commands for operators of a hub.
package hub

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/identity"
)

// services lists the services that have a secret, in the order in which they are printed.
var services = []string{identity.ServiceDistributor, identity.ServiceGitCache, identity.ServiceTunnel}

// Keys is `leat keys`.
func Keys(s *session.Session) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make the secrets and keys of a hub's services",
		Long: `Make a secret for each service of a hub, and the public keys that belong to them. A service gets its own secret as LEAT_SERVICE_SECRET, and no
other service's; all services get LEAT_SERVICE_KEYS. A compromised service therefore cannot impersonate another one.

A secret that is set as LEAT_DISTRIBUTOR_SECRET, LEAT_GITCACHE_SECRET or LEAT_TUNNEL_SECRET is kept, and only the missing ones are made.
The distributor's secret encrypts secrets in the database: keep an existing one. To replace the secret of one service, run this
with the secrets of the others set, and restart all services.`,
		Example: `  leat keys > .env                                    lines for docker compose
  leat keys -o kubernetes | kubectl apply -f -        Secrets and a ConfigMap
  LEAT_DISTRIBUTOR_SECRET="$old" leat keys            keep the distributor's`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return s.Fail(printKeys(s, format))
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "env", "env or kubernetes")
	return cmd
}

func printKeys(s *session.Session, format string) error {
	secrets, keys := map[string]string{}, make([]string, 0, len(services))
	for _, service := range services {
		secret, ok := s.LookupEnv(variable(service))
		if !ok || secret == "" {
			secret = newSecret()
		}
		key, err := identity.NewServiceKey([]byte(secret), service)
		if err != nil {
			return failure.New(variable(service)+" is too short", fmt.Sprintf("It needs at least %d bytes. Unset it to have a new one made.", identity.MinServiceSecret))
		}
		secrets[service], keys = secret, append(keys, key.Public())
	}
	switch format {
	case "env":
		return printEnv(s.Out, secrets, keys)
	case "kubernetes":
		return printKubernetes(s.Out, secrets, keys)
	}
	return failure.New(fmt.Sprintf("there is no output form %q", format), "Use -o env or -o kubernetes.")
}

func variable(service string) string { return "LEAT_" + strings.ToUpper(service) + "_SECRET" }

// newSecret returns 256 random bits.
func newSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

func printEnv(out io.Writer, secrets map[string]string, keys []string) error {
	for _, service := range services {
		if _, err := fmt.Fprintf(out, "%s=%s\n", variable(service), secrets[service]); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "LEAT_SERVICE_KEYS=%s\n", strings.Join(keys, ","))
	return err
}

func printKubernetes(out io.Writer, secrets map[string]string, keys []string) error {
	for _, service := range services {
		_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: leat-%s\nstringData:\n  service-secret: %q\n---\n", service, secrets[service])
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: leat-service-keys\ndata:\n  service-keys: %q\n", strings.Join(keys, ","))
	return err
}
