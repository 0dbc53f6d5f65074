// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"
	"unicode"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/cli/internal/localrender"
	"github.com/leatdev/leat/cli/internal/session"
)

// input holds the flags of both commands: the content to render, and the values.
type input struct {
	session *session.Session

	files, sources               []string
	root, namespace, releaseName string
	values, set                  []string
	config, secrets              []string
	version, facts               string
	apiVersions                  []string
	installed                    bool

	// rendersNothing: the values of secrets are not needed.
	rendersNothing bool
}

// settings returns the settings of the flags, without the content.
func (in *input) settings() (localrender.Settings, error) {
	version, err := in.kubeVersion()
	if err != nil {
		return localrender.Settings{}, err
	}
	s := localrender.Settings{
		Installed: in.installed, HasPlaceholders: in.rendersNothing, KubernetesVersion: "v" + version.String() + ".0",
	}
	if in.version != "" && strings.Count(in.version, ".") > 1 {
		s.KubernetesVersion = "v" + strings.TrimPrefix(in.version, "v")
	}
	s.APIVersions = slices.Concat(kubeapi.Names(version), in.apiVersions)
	slices.Sort(s.APIVersions)
	s.APIVersions = slices.Compact(s.APIVersions)
	if s.Values, err = pairs("--config", in.config); err != nil {
		return s, err
	}
	if s.Secrets, err = pairs("--secret", in.secrets); err != nil {
		return s, err
	}
	for key := range s.Secrets {
		if _, twice := s.Values[key]; twice {
			return s, failure.Usage("%s is both a --config and a --secret", key)
		}
	}
	return s, in.readSecret(s.Secrets)
}

// line returns a text of content in one line, without control characters: a terminal would obey them.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
