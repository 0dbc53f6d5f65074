// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub holds the commands for operators of a hub.
package hub

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
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
	format, next := "", ""
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make the secrets and keys of a hub's services",
		Long: `Make a secret for each service of a hub, and the public keys that belong to them. A service gets its own secret as LEAT_SERVICE_SECRET, and no
other service's; all services get LEAT_SERVICE_KEYS. A compromised service therefore cannot impersonate another one.

A secret that is set as LEAT_DISTRIBUTOR_SECRET, LEAT_GITCACHE_SECRET or LEAT_TUNNEL_SECRET is kept, and only the missing ones are made.
It may be an Ed25519 private key in PEM, as openssl genpkey makes it: then it is the service's key itself.
LEAT_DISTRIBUTOR_OTHER_SECRETS and so on are secrets that a service accepts beside its own while it is replaced, separated by commas:
they are kept, and their keys are printed, too. --next makes one for a service. docs/operations/keys.md says in which order to replace
a secret.`,
		Example: `  leat keys > .env                                    lines for docker compose
  leat keys -o kubernetes | kubectl apply -f -        Secrets and a ConfigMap
  LEAT_DISTRIBUTOR_SECRET="$old" leat keys            keep the distributor's
  set -a; . ./.env; leat keys --next tunnel >> .env   begin to replace the tunnel's`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if next != "" && !slices.Contains(services, next) {
				return s.Fail(failure.Usage("there is no service %q, want distributor, gitcache or tunnel", next))
			}
			return s.Fail(printKeys(s, format, next))
		},
	}
	cmd.Flags().StringVar(&next, "next", "", "the service for which to make a further secret: distributor, gitcache or tunnel")
	cmd.Flags().StringVarP(&format, "output", "o", "env", "env or kubernetes")
	return cmd
}

// serviceSecrets are the secrets of one service.
type serviceSecrets struct {
	used  string
	other []string // accepted while the used one is replaced
}

func printKeys(s *session.Session, format, next string) error {
	secrets, keys := map[string]serviceSecrets{}, make([]string, 0, len(services))
	for _, service := range services {
		secret := serviceSecrets{used: environment(s, variable(service)), other: split(environment(s, othersVariable(service)))}
		if secret.used == "" {
			secret.used = newSecret()
		}
		if service == next {
			secret.other = append(secret.other, newSecret())
		}
		for i, text := range append([]string{secret.used}, secret.other...) {
			key, err := identity.NewServiceKey([]byte(text), service)
			if err != nil {
				name := variable(service)
				if i > 0 {
					name = "a secret in " + othersVariable(service)
				}
				return unusable(name, text, err)
			}
			keys = append(keys, key.Public())
		}
		secrets[service] = secret
	}
	switch format {
	case "env":
		return printEnv(s.Out, secrets, keys)
	case "kubernetes":
		return printKubernetes(s.Out, secrets, keys)
	}
	return failure.New(fmt.Sprintf("there is no output form %q", format), "Use -o env or -o kubernetes.")
}

// unusable says what is wrong with the named secret.
func unusable(name, secret string, err error) error {
	if len(secret) < identity.MinServiceSecret {
		return failure.New(name+" is too short", fmt.Sprintf("It needs at least %d bytes. Unset it to have a new one made.", identity.MinServiceSecret))
	}
	return failure.New(name+" is not a key: "+err.Error(), "Unset it to have a new secret made.")
}

func environment(s *session.Session, name string) string {
	value, _ := s.LookupEnv(name)
	return value
}

// split returns the parts of a list that is separated by commas, without empty ones.
func split(list string) (parts []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func variable(service string) string { return "LEAT_" + strings.ToUpper(service) + "_SECRET" }

func othersVariable(service string) string {
	return "LEAT_" + strings.ToUpper(service) + "_OTHER_SECRETS"
}

// newSecret returns 256 random bits.
func newSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

func printEnv(out io.Writer, secrets map[string]serviceSecrets, keys []string) error {
	for _, service := range services {
		if _, err := fmt.Fprintf(out, "%s=%s\n", variable(service), quoted(secrets[service].used)); err != nil {
			return err
		}
		if len(secrets[service].other) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s=%s\n", othersVariable(service), quoted(strings.Join(secrets[service].other, ","))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "LEAT_SERVICE_KEYS=%s\n", strings.Join(keys, ","))
	return err
}

// quoted returns a value as shells and docker compose read it: a key in PEM has several lines.
func quoted(value string) string {
	if strings.Contains(value, "\n") {
		return `"` + value + `"`
	}
	return value
}

func printKubernetes(out io.Writer, secrets map[string]serviceSecrets, keys []string) error {
	for _, service := range services {
		_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: leat-%s\nstringData:\n  service-secret: %q\n  service-other-secrets: %q\n---\n",
			service, secrets[service].used, strings.Join(secrets[service].other, ","))
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: leat-service-keys\ndata:\n  service-keys: %q\n", strings.Join(keys, ","))
	return err
}
