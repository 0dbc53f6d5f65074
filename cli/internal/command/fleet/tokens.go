// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// kindToken is the kind of API tokens, which are not documents.
const kindToken = "Token"

func isToken(word string) bool {
	return strings.EqualFold(word, kindToken) || strings.EqualFold(word, kindToken+"s")
}

// kindSession is the kind of people's sessions, which are not documents.
const kindSession = "Session"

func isSession(word string) bool {
	return strings.EqualFold(word, kindSession) || strings.EqualFold(word, kindSession+"s")
}

// sessions shows people's sessions: all that the caller may see, or one person's.
func (g *get) sessions(ctx context.Context, c *client.Client) error {
	sessions, err := c.PeopleSessions(ctx, g.target.name)
	if err != nil {
		return err
	}
	if len(sessions) == 0 && g.format == show.Table {
		_, err := fmt.Fprintln(g.session.Err, "There are no sessions.")
		return err
	}
	return show.Sessions(g.session.Out, g.format, g.session.Style(g.session.Out), time.Now(), sessions)
}

// tokens shows API tokens: all that the caller may see, or one user's.
func (g *get) tokens(ctx context.Context, c *client.Client) error {
	tokens, err := c.Tokens(ctx, g.target.name)
	if err != nil {
		return err
	}
	if len(tokens) == 0 && g.format == show.Table {
		_, err := fmt.Fprintln(g.session.Err, "There are no tokens yet.")
		return err
	}
	return show.Tokens(g.session.Out, g.format, g.session.Style(g.session.Out), time.Now(), tokens)
}

// parseDeletable parses KIND/NAME, or token/ID.
func parseDeletable(s *session.Session, text string) (target, error) {
	word, id, found := strings.Cut(text, "/")
	if found && isToken(word) && id != "" {
		return target{kind: kindToken, name: id}, nil
	}
	return parseTarget(s, text)
}

func drop(ctx context.Context, c *client.Client, t target) error {
	if t.kind != kindToken {
		return c.Remove(ctx, t.kind, t.name)
	}
	_, err := c.DeleteToken(ctx, &fleetv1.DeleteTokenRequest{Id: t.name})
	return err
}
