package top

import (
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// keyLine is the last line of the screen.
const keyLine = "q quit  ? keys  ↑↓ choose  enter look into  / filter  s sort  c clients  p pause  r reverse"

// keyPage is what ? shows.
const keyPage = `Keys

  up, down, j, k     choose a queue
  page up, page down a screen further
  home, end, g, G    first, last
  enter, right       look into the chosen queue
  c                  who holds items of the chosen queue, or waits for it
  esc, left          back
  s, S               sort by the next column, the one before
  1 to 8             sort by that column
  r                  the other way round
  /                  show only queues whose names contain what you type;
                     enter keeps it, esc takes it back
  p, space           hold the picture, and go on
  +, -               look more often, less often
  q, ctrl+c          quit

Any key goes back.`

const (
	shortest = 100 * time.Millisecond // between samples
	longest  = time.Minute
)

// key does what a key stands for.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.help:
		m.help = false
		return nil
	case m.typing:
		m.typed(name, k.Key().Text)
		return nil
	}
	page := max(m.height-5, 1)
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "up", "k":
		m.moveTo(m.cursor() - 1)
	case "down", "j":
		m.moveTo(m.cursor() + 1)
	case "pgup":
		m.moveTo(m.cursor() - page)
	case "pgdown":
		m.moveTo(m.cursor() + page)
	case "home", "g":
		m.moveTo(0)
	case "end", "G":
		m.moveTo(len(m.rows) - 1)
	case "enter", "right", "l":
		m.inside = m.chosen != ""
	case "c":
		m.inside = m.chosen != ""
		m.clients = m.inside
		return m.askConnections()
	case "esc", "left", "h", "backspace":
		if m.clients {
			m.clients = false
			return nil
		}
		m.inside = false
		m.arrange()
	case "s":
		m.sortBy((m.sorted + 1) % column(len(columns)))
	case "S":
		m.sortBy((m.sorted + column(len(columns)) - 1) % column(len(columns)))
	case "1", "2", "3", "4", "5", "6", "7", "8":
		m.sortBy(column(name[0] - '1'))
	case "r":
		m.reverse = !m.reverse
		m.arrange()
	case "/":
		m.typing = true
	case "p", "space":
		m.paused = !m.paused
	case "+":
		m.opts.Interval = max(m.opts.Interval/2, shortest)
	case "-":
		m.opts.Interval = min(m.opts.Interval*2, longest)
	}
	return nil
}

func (m *model) sortBy(c column) {
	m.sorted, m.reverse = c, false
	m.arrange()
}

// typed takes a key while the filter is typed.
func (m *model) typed(name, text string) {
	switch {
	case name == "enter":
		m.typing = false
	case name == "esc":
		m.typing, m.filter = false, ""
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case text != "" && !strings.ContainsAny(text, "\r\n"):
		m.filter += text
	}
	m.arrange()
}
