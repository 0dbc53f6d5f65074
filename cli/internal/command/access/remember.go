// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
)

func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return server
	}
	return parsed.Hostname()
}

// remember stores a context and makes it the current one. The session of the context that it replaces
// ends.
func remember(ctx context.Context, s *session.Session, c settings.Context) (err error) {
	if c.CAFile != "" {
		if c.CAFile, err = filepath.Abs(c.CAFile); err != nil {
			return fmt.Errorf("find CA file: %w", err)
		}
	}
	all, err := s.Settings()
	if err != nil {
		return err
	}
	path, err := s.ConfigPath()
	if err != nil {
		return err
	}
	replaced, _ := all.Context(c.Name)
	all.Put(c)
	if err := all.Save(path); err != nil {
		return err
	}
	if replaced.Name == c.Name && replaced.Session != "" {
		endReplaced(ctx, s, replaced)
	}
	return nil
}
