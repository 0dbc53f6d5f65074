// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub holds the commands for operators of a hub.
package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/hubsecrets"
	"github.com/leatdev/leat/cli/internal/localtls"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// Keys is `leat keys`.
func Keys(s *session.Session) *cobra.Command {
	format, next := "", ""
	in := folder{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make the secrets and keys of a hub's services",
		Long: `Make a secret for each service of a hub, and the public keys that belong to them. A service gets its own secret as LEAT_SERVICE_SECRET, and no
other service's; all services get LEAT_SERVICE_KEYS. A compromised service therefore cannot impersonate another one.

A secret that is set as LEAT_DISTRIBUTOR_SECRET, LEAT_GITCACHE_SECRET or LEAT_TUNNEL_SECRET is kept, and only the missing ones are made.
It may be an Ed25519 private key in PEM, as openssl genpkey makes it: then it is the service's key itself.
LEAT_DISTRIBUTOR_OTHER_SECRETS and so on are secrets that a service accepts beside its own while it is replaced, separated by commas:
they are kept, and their keys are printed, too. --next makes one for a service. docs/operations/keys.md says in which order to replace
a secret.

With --dir, files are written instead, for docker-compose.yml, whose service init runs this: all secrets of the stack, an authority and
the certificates of the tunnel and of the proxy in front, in a folder for each reader. What is there is kept, a certificate that ends within 30 days is renewed, and
what follows from a secret, such as a URL that contains it, is written again.`,
		Example: `  leat keys > hub.env                                 lines for a shell
  leat keys -o kubernetes | kubectl apply -f -        Secrets and a ConfigMap
  leat keys --dir secrets                             files for docker-compose.yml
  LEAT_DISTRIBUTOR_SECRET="$old" leat keys            keep the distributor's
  set -a; . ./hub.env; leat keys --next tunnel        begin to replace the tunnel's`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.dir != "" {
				if cmd.Flags().Changed("next") || cmd.Flags().Changed("output") {
					return s.Fail(failure.Usage("--dir goes with neither --next nor --output"))
				}
				return s.Fail(in.fill(s))
			}
			if in.groups != nil || in.hosts != nil {
				return s.Fail(failure.Usage("--group and --tls-name go with --dir"))
			}
			if next != "" && !slices.Contains(hubsecrets.Services, next) {
				return s.Fail(failure.Usage("there is no service %q, want distributor, gitcache or tunnel", next))
			}
			return s.Fail(printKeys(s, format, next))
		},
	}
	cmd.Flags().StringVar(&next, "next", "", "the service for which to make a further secret: distributor, gitcache or tunnel")
	cmd.Flags().StringVarP(&format, "output", "o", "env", "env or kubernetes")
	cmd.Flags().StringVar(&in.dir, "dir", "", "write files below this folder, and print no secret")
	cmd.Flags().StringToIntVar(&in.groups, "group", nil, "numeric groups that may read the files of a reader, such as redis=1000; without one, the owner alone may")
	cmd.Flags().StringSliceVar(&in.hosts, "tls-name", nil, "further host names and addresses of the certificates")
	return cmd
}

// serviceSecrets are the secrets of one service.
type serviceSecrets struct {
	used  string
	other []string // accepted while the used one is replaced
}

func printKeys(s *session.Session, format, next string) error {
	secrets, keys := map[string]serviceSecrets{}, make([]string, 0, len(hubsecrets.Services))
	for _, service := range hubsecrets.Services {
		secret := serviceSecrets{used: environment(s, hubsecrets.SecretVariable(service)), other: hubsecrets.Split(environment(s, hubsecrets.OthersVariable(service)))}
		if secret.used == "" {
			secret.used = hubsecrets.Random()
		}
		if service == next {
			secret.other = append(secret.other, hubsecrets.Random())
		}
		for i, text := range append([]string{secret.used}, secret.other...) {
			key, err := identity.NewServiceKey([]byte(text), service)
			if err != nil {
				name := hubsecrets.SecretVariable(service)
				if i > 0 {
					name = "a secret in " + hubsecrets.OthersVariable(service)
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

// unusable returns the defect of the named secret.
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

func printEnv(out io.Writer, secrets map[string]serviceSecrets, keys []string) error {
	for _, service := range hubsecrets.Services {
		if _, err := fmt.Fprintf(out, "%s=%s\n", hubsecrets.SecretVariable(service), quoted(secrets[service].used)); err != nil {
			return err
		}
		if len(secrets[service].other) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s=%s\n", hubsecrets.OthersVariable(service), quoted(strings.Join(secrets[service].other, ","))); err != nil {
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
	for _, service := range hubsecrets.Services {
		_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: leat-%s\nstringData:\n  service-secret: %q\n  service-other-secrets: %q\n---\n",
			service, secrets[service].used, strings.Join(secrets[service].other, ","))
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: leat-service-keys\ndata:\n  service-keys: %q\n", strings.Join(keys, ","))
	return err
}

// folder is the argument of `leat keys --dir`.
type folder struct {
	dir    string
	groups map[string]int
	hosts  []string
}

// fill makes the files, and prints which ones, and how to use them. It prints no secret.
func (in *folder) fill(s *session.Session) error {
	for _, reader := range slices.Sorted(maps.Keys(in.groups)) {
		if !slices.Contains(hubsecrets.Readers, reader) || in.groups[reader] < 0 {
			return failure.Usage("--group: got %s=%d, want a number of a group for one of %s", reader, in.groups[reader], strings.Join(hubsecrets.Readers, ", "))
		}
	}
	made, err := hubsecrets.Make(hubsecrets.Params{
		Dir: in.dir, Groups: in.groups, Hosts: in.hosts, Given: func(name string) string { return environment(s, name) }, Now: time.Now(), Fault: nil,
	})
	var out strings.Builder
	for _, name := range made.Written {
		fmt.Fprintf(&out, "wrote %s\n", name)
	}
	if err == nil {
		if len(made.Written) == 0 {
			out.WriteString("everything is there\n")
		}
		fmt.Fprintf(&out, "The certificates end on %s. Their names: %s\n", made.Ends.Format(time.DateOnly), strings.Join(made.Hosts, ", "))
		if made.NewAuthority {
			out.WriteString("The authority is a new one. Copy ca.crt again, and give it to people and agents.\n")
		}
		server := cmp.Or(environment(s, session.EnvServer), "https://127.0.0.1:8443")
		fmt.Fprintf(&out, usage, path.Join(filepath.ToSlash(in.dir), "people"), server)
	}
	_, printed := fmt.Fprint(s.Out, out.String())
	if err != nil {
		return refusal(err)
	}
	return printed
}

// usage ends the output of the service init of docker-compose.yml.
const usage = `To use the hub:
  docker compose run --rm leat get clusters
To use it with a leat of this machine:
  docker compose cp init:%s/. leat-people
  export LEAT_SERVER=%s LEAT_CA_FILE=$PWD/leat-people/ca.crt LEAT_TOKEN_FILE=$PWD/leat-people/token
  leat cluster create NAME          how to run its agent
  leat kubeconfig NAME              a kubeconfig for kubectl
`

// refusal returns the advice about an error of [hubsecrets.Make].
func refusal(err error) error {
	for cause, advice := range map[error]string{
		hubsecrets.ErrBusy:         "Wait for it to end.",
		hubsecrets.ErrDamaged:      "Restore it from a backup. If nothing depends on it, replace it by a new one.",
		hubsecrets.ErrFull:         "Make room and run this again: it goes on where it stopped.",
		hubsecrets.ErrGroup:        "Run this as a member of that group: group_add in docker-compose.yml.",
		hubsecrets.ErrLost:         "It was made before. Restore it from a backup. If nothing depends on it, put a new one there.",
		hubsecrets.ErrNotPermitted: "Run this as the owner of the folder and of its files.",
		localtls.ErrHost:           "Correct --tls-name; docker-compose.yml takes it from LEAT_TLS_NAMES, such as hub.example.com,192.0.2.7.",
	} {
		if errors.Is(err, cause) {
			return failure.New(err.Error(), advice)
		}
	}
	return err
}
