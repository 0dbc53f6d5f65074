// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// workloadFlags select how a job or a pod signs in.
type workloadFlags struct {
	isWorkload bool
	source     settings.Workload
}

func (w *workloadFlags) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&w.isWorkload, "workload", false, "sign in as the job or pod that runs leat, by the token that GitHub Actions gives it, or that the next flags name")
	flags.StringVar(&w.source.TokenFile, "workload-token-file", "", "file with the token of the job or pod, read for each exchange")
	flags.StringVar(&w.source.TokenEnv, "workload-token-env", "", "variable of the environment with the token of the job, such as one of GitLab's id_tokens")
	flags.StringVar(&w.source.Audience, "workload-audience", "", "audience to ask GitHub for (default: the hub's address)")
	flags.StringVar(&w.source.Rule, "workload-rule", "", "the trust rule to sign in by (default: the only one that accepts the token)")
}

// isSet reports whether a workload signs in.
func (w *workloadFlags) isSet() bool { return w.isWorkload || w.source != settings.Workload{} }

func (w *workloadFlags) check() error {
	switch {
	case w.source.TokenFile != "" && w.source.TokenEnv != "":
		return errors.New("--workload-token-file excludes --workload-token-env")
	case w.source.Audience != "" && w.source.TokenFile+w.source.TokenEnv != "":
		return errors.New("--workload-audience is for GitHub Actions; the audience of a token that is there cannot be changed")
	}
	return nil
}

// loginAsWorkload signs a job or a pod in.
func loginAsWorkload(ctx context.Context, s *session.Session, endpoint session.Endpoint, name string, w workloadFlags) error {
	source := w.source
	if source.TokenFile == "" && source.TokenEnv == "" && !client.HasGitHubToken(s.LookupEnv) {
		return failure.New("there is no token of a job here",
			"Give the job of GitHub Actions the permission id-token: write, or name the token by --workload-token-file or --workload-token-env.")
	}
	if source.TokenFile != "" {
		absolute, err := filepath.Abs(source.TokenFile)
		if err != nil {
			return fmt.Errorf("find token file: %w", err)
		}
		source.TokenFile = absolute
	}
	source.Cache = rand.Text() + ".json"
	made := settings.Context{Name: cmp.Or(name, hostOf(endpoint.Server)), Server: endpoint.Server, CAFile: endpoint.CAFile, Workload: &source}
	target, err := s.EndpointIn(made)
	if err != nil {
		return err
	}
	c, err := s.Connect(target)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return failure.From(err, endpoint.Server)
	}
	if err := remember(ctx, s, made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Logged in to %s as %s; the context is %q.\n", endpoint.Server, info.GetSubject(), made.Name)
	return err
}
