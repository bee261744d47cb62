import com.twitter.conversions.storage._
import com.twitter.conversions.time._
import net.lag.kestrel.config._

new KestrelConfig {
  listenAddress = "127.0.0.1"
  queuePath = "/tmp/kestrel-queues"
  clientTimeout = 30.seconds
  expirationTimerFrequency = 1 second
  maxOpenTransactions = 100
  default.syncJournal = Duration.MaxValue
  queues = List(
    new QueueBuilder() {
      name = "spam"
      maxItems = 100
    },
    new QueueBuilder {
      name = "spam_fast"
      maxMemorySize = 8.megabytes
      keepJournal = true
    })
}
